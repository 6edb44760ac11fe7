"""All settings of the broker: type, default, when a change takes effect, and whether the setting has an effect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from odradek.coordinator.configs.definition import Definition
from odradek.coordinator.configs.effects import (
    AT_START,
    ONE_LISTENER,
    SCOPES,
    WITHOUT_EFFECT,
    when_changed,
    without_effect,
)
from odradek.coordinator.configs.protections import PROTECTIONS
from odradek.coordinator.configs.tables import BROKER_CONFIGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS
from odradek.wire.values import immutable

_TABLES: Mapping[str, Mapping[str, Definition]] = {
    "broker": BROKER_CONFIGS,
    "topic": TOPIC_CONFIGS,
    "group": GROUP_CONFIGS,
    "client-metrics": CLIENT_METRICS_CONFIGS,
}

ACTS = "acts"
REFUSED = "refused"
NONE = "none"

INTRODUCTION = f"""\
# Settings

Written by `odradek configs list --markdown > docs/settings.md`; a test fails if it is not up to date. The names, types
and defaults are Kafka 4.3.1's (the few other defaults are in [differences.md](differences.md)); settings that begin
with `odradek.` are ours. A setting is set on the command line (`--set NAME=VALUE`), by a variable
(`ODRADEK_NAME`, `KAFKA_NAME`), in a file (`--config`), or, if it can change at run time, by
`odradek configs alter`. At its start, `odradek serve` logs the settings without effect that have another value than
the default. {ONE_LISTENER}
"""


@immutable
class Row:
    """One setting. `effect` is `acts`, `refused` or `none`; `reason` says why it has no effect."""

    scope: str
    name: str
    type: str
    default: str | None
    changes: str
    effect: str
    reason: str
    description: str | None


def rows(scopes: Sequence[str] = SCOPES) -> Iterator[Row]:
    """All settings of these scopes, sorted by name in each."""
    for scope in scopes:
        for name, definition in sorted(_TABLES[scope].items()):
            reason = without_effect(scope, name)
            effect, why = (NONE, reason) if reason is not None else (ACTS, "")
            if scope == "broker" and name in PROTECTIONS:
                effect, why = REFUSED, f"promises {PROTECTIONS[name]}, which is not there yet"
            changes = when_changed(name) if scope == "broker" else "at once"
            default = definition.default
            yield Row(scope, name, definition.type.name.lower(), default, changes, effect, why, definition.doc)


def page() -> str:
    """The text of docs/settings.md."""
    known = list(rows())
    parts = [INTRODUCTION, "## Settings that act\n"]
    for scope in SCOPES:
        acting = [row for row in known if row.scope == scope and row.effect == ACTS]
        if acting:
            parts += [f"### Of a {scope}\n", _table(("name", "type", "default", "a change acts"), map(_acting, acting))]
    parts += [
        "Settings that are only read at the start, although Kafka can change them at run time:\n",
        _lines(AT_START),
    ]
    refused = ((f"`{row.name}`", row.reason) for row in known if row.effect == REFUSED)
    parts += [
        "## Settings that are refused\n",
        "With any value but Kafka's default they would promise a protection, or another feature, that Odradek does not "
        "have: `odradek serve` does not start with them, and they cannot be set at run time. `super.users` and "
        "`allow.everyone.if.no.acl.found=false`, which belong to authorizers, are also refused.\n",
        _table(("name", "why"), refused),
        "## Settings without effect\n",
        "They are accepted and described, but have no effect.\n",
        _table(("of", "names", "why"), _groups()),
    ]
    return "\n".join(parts)


def _acting(row: Row) -> tuple[str, ...]:
    return f"`{row.name}`", row.type, "" if row.default is None else f"`{row.default}`" * bool(row.default), row.changes


def _groups() -> Iterator[tuple[str, ...]]:
    """One line for each entry of `WITHOUT_EFFECT`, with the names of all settings that it covers."""
    for entry in WITHOUT_EFFECT:
        names = [row.name for row in rows((entry.scope,)) if row.effect == NONE and row.reason == entry.reason]
        yield entry.scope, ", ".join(f"`{name}`" for name in names), entry.reason


def _table(headers: Sequence[str], lines: Iterable[tuple[str, ...]]) -> str:
    written = [f"| {' | '.join(cells)} |" for cells in (headers, ["---"] * len(headers), *lines)]
    return "\n".join(written) + "\n"


def _lines(described: dict[str, str]) -> str:
    return "\n".join(f"- `{name}`: {why}" for name, why in described.items()) + "\n"
