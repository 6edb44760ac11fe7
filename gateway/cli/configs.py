"""`odradek configs`: list all settings; describe and alter those of topics, brokers, groups and client metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import Admin, Target, library, open_admin, retrying
from odradek.gateway.cli.errors import CliError, client_error_text
from odradek.gateway.cli.options import Text, connection_options, json_option
from odradek.gateway.cli.output import emit_json, heading, note, say, table
from odradek.gateway.cli.removal import serves
from odradek.gateway.cli.topics import describe_existing

KINDS = ("topic", "broker", "group", "client-metrics")
ALL_BROKERS = "default"

EPILOG = """\
\b
Examples:
  odradek configs list --scope topic
  odradek configs describe topic hello --all
  odradek configs alter topic hello --set retention.ms=60000 --unset cleanup.policy
  odradek configs alter broker default --set log.retention.ms=3600000
  odradek configs alter group readers --set consumer.session.timeout.ms=45000
"""


@click.group(epilog=EPILOG)
def configs() -> None:
    """List all settings, describe and alter those of topics, brokers and groups."""


@configs.command("list", epilog="\b\nExample:\n  odradek configs list --scope broker --without-effect")
@click.option("--scope", type=click.Choice(KINDS), help="Only settings of this kind. [default: all]")
@click.option("--without-effect", "idle", is_flag=True, help="Only those that do not act, with the reason.")
@click.option("--markdown", is_flag=True, help="Print the page docs/settings.md.")
@json_option
def list_settings(*, scope: str | None, idle: bool, markdown: bool, as_json: bool) -> None:
    """Print every setting of this version of Odradek; needs no broker."""
    from odradek.gateway.cli.settings_list import ACTS, page, rows

    if markdown:
        click.echo(page(), nl=False)
        return
    found = [row for row in rows(KINDS if scope is None else (scope,)) if not (idle and row.effect == ACTS)]
    if as_json:
        emit_json([asdict(row) for row in found])
    elif idle:
        table(("OF", "NAME", "EFFECT", "REASON"), [(row.scope, row.name, row.effect, row.reason) for row in found])
    else:
        headers = ("OF", "NAME", "TYPE", "DEFAULT", "A CHANGE ACTS", "EFFECT")
        table(headers, [(r.scope, r.name, r.type, r.default, r.changes, r.effect) for r in found])


@configs.command("describe", epilog="\b\nExample:\n  odradek configs describe broker 1 --all --json")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("names", metavar="NAME...", type=Text(), nargs=-1, required=True)
@click.option("--all", "everything", is_flag=True, help="Also show settings that have their default value.")
@json_option
@connection_options
def describe(target: Target, *, kind: str, names: Sequence[str], everything: bool, as_json: bool) -> None:
    """Show the settings of topics, brokers (`default` for what is set for all), groups or metrics subscriptions."""
    with open_admin(target) as admin:
        resources = _resources(target, admin, kind, names)
        if kind == "topic":
            describe_existing(target, admin, names)  # kafka-python reports no error for a missing topic
        answers = retrying(target, lambda: admin.describe_configs(resources, config_filter="all"))
    found = answers.get(_wire_name(kind), {})
    shown = [_described(kind, name, found.get(_resource_name(kind, name), {}), everything) for name in names]
    if as_json:
        emit_json(shown)
    else:
        for each in shown:
            _show(each)


def _described(kind: str, name: str, settings: Mapping[str, Mapping[str, Any]], everything: bool) -> dict[str, Any]:
    """The settings that are set for this resource itself, as in kafka-configs; with `everything`, all that apply."""
    own = "DYNAMIC_DEFAULT_BROKER_CONFIG" if name == ALL_BROKERS else f"DYNAMIC_{_wire_name(kind).upper()}_CONFIG"
    return {
        "kind": kind,
        "name": name,
        "configs": {
            setting: {
                "value": entry["value"],
                "source": str(entry["config_source"]).lower(),
                "sensitive": bool(entry.get("is_sensitive", False)),
                "read_only": bool(entry.get("read_only", False)),
            }
            for setting, entry in sorted(settings.items())
            if everything or str(entry["config_source"]).upper() == own
        },
    }


def _show(described: Mapping[str, Any]) -> None:
    click.echo(heading(f"{described['kind']} {described['name']}"))
    for name, entry in described["configs"].items():
        value = "(hidden)" if entry["sensitive"] else entry["value"]
        say(f"  {name}={'' if value is None else value}  ({entry['source'].replace('_', ' ')})")


@configs.command("alter", epilog="\b\nExample:\n  odradek configs alter topic hello --set retention.ms=60000")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("names", metavar="NAME...", type=Text(), nargs=-1, required=True)
@click.option("-s", "--set", "assigned", type=Assignment(), multiple=True, help="A setting to set. Repeatable.")
@click.option(
    "-u", "--unset", "unset", type=Text(), multiple=True, help="A setting to return to its default. Repeatable."
)
@click.option("--append", "appended", type=Assignment(), multiple=True, help="Add to a list. Repeatable.")
@click.option("--subtract", "subtracted", type=Assignment(), multiple=True, help="Take out of a list. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Validate the change in the broker, but change nothing.")
@connection_options
def alter(
    target: Target,
    *,
    kind: str,
    names: Sequence[str],
    assigned: Sequence[tuple[str, str]],
    unset: Sequence[str],
    appended: Sequence[tuple[str, str]],
    subtracted: Sequence[tuple[str, str]],
    dry_run: bool,
) -> None:
    """Change settings of topics, brokers (`default` for all), groups or metrics subscriptions; the others stay."""
    changes: list[tuple[str, tuple[str, str | None]]] = [
        *((name, ("SET", text)) for name, text in assigned),
        *((name, ("DELETE", None)) for name in unset),
        *((name, ("APPEND", text)) for name, text in appended),
        *((name, ("SUBTRACT", text)) for name, text in subtracted),
    ]
    if not changes:
        raise click.UsageError("nothing to alter: give --set, --unset, --append or --subtract")
    if len(dict(changes)) < len(changes):
        raise click.UsageError("a setting is named more than once")
    with open_admin(target) as admin:
        resources = _resources(target, admin, kind, names)
        failures = [
            failure for resource in resources if (failure := _alter(admin, kind, resource, dict(changes), dry_run))
        ]
    if failures:
        raise CliError(*failures)


def _alter(
    admin: Admin,
    kind: str,
    resource: Any,  # noqa: ANN401 - kafka-python's
    changes: Mapping[str, tuple[str, str | None]],
    dry_run: bool,
) -> str | None:
    """Alter one resource; returns the text of the error, or None if there was none."""
    resource.configs = changes
    outcome = admin.alter_configs([resource], raise_on_unknown=False, validate_only=dry_run)
    text, name = outcome[_wire_name(kind)][resource.name], resource.name or ALL_BROKERS
    if text != "OK":
        return f"{kind} {name!r}: {client_error_text(text)}"
    note(f"{kind} {name!r}: {', '.join(sorted(changes))} {'can be changed' if dry_run else 'changed'}")
    return None


def _wire_name(kind: str) -> str:
    return kind.replace("-", "_")


def _resource_name(kind: str, name: str) -> str:
    return "" if kind == "broker" and name == ALL_BROKERS else name


class _AllBrokers(str):
    """The empty name, which means all brokers. kafka-python calls `int` on a name to find the broker to send to."""

    node_id: int

    def __int__(self) -> int:
        return self.node_id


def _resources(target: Target, admin: Admin, kind: str, names: Sequence[str]) -> list[Any]:
    """kafka-python's resources with these names; raises `CliError` for a broker that is not in the cluster."""
    if kind != "broker":
        return [library().admin.ConfigResource(_wire_name(kind), name) for name in names]
    found = retrying(target, admin.describe_cluster)["brokers"]
    brokers = [str(broker["broker_id"]) for broker in found]
    for name in names:
        if name != ALL_BROKERS and name not in brokers:
            raise CliError(
                f"there is no broker {name!r}: the cluster has {', '.join(brokers)}; {ALL_BROKERS!r} stands for all"
            )
    every = _AllBrokers("")
    every.node_id = next(broker["broker_id"] for broker in [*filter(serves, found), *found])
    return [library().admin.ConfigResource(kind, every if name == ALL_BROKERS else name) for name in names]
