"""`odradek features`: show the levels of a cluster's features, raise and lower them (KIP-584), like kafka-features."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import click

from odradek.gateway.cli.client import Target, library, open_admin, retrying
from odradek.gateway.cli.errors import CliError, broker_error_text, client_error_text, response_message
from odradek.gateway.cli.options import INT16_MAX, Text, connection_options, json_option
from odradek.gateway.cli.output import emit_json, note, table


class UpgradeType(IntEnum):
    """The kind of an update, with its number in Kafka's protocol."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Level(click.ParamType[tuple[str, int]]):
    """`NAME=LEVEL`, converted to a pair."""

    name = "name=level"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Split at the equals sign; wrong usage if the level is not a number."""
        name, _, level = str(value).partition("=")
        if not name or not level.strip().isdecimal() or int(level) > INT16_MAX:
            self.fail(f"{value!r} is not NAME=LEVEL", param, ctx)
        return name.strip(), int(level)


_dry_run = click.option("--dry-run", is_flag=True, help="Validate the change in the broker, but change nothing.")
_unsafe = click.option("--unsafe", is_flag=True, help="Even if metadata may be lost.")


@click.group(epilog="\b\nExamples:\n  odradek features describe\n  odradek features upgrade group.version=1")
def features() -> None:
    """Show the levels of the cluster's features, raise and lower them."""


@features.command("describe", epilog="\b\nExample:\n  odradek features describe --json")
@json_option
@connection_options
def describe(target: Target, *, as_json: bool) -> None:
    """Print each feature's lowest and highest supported level, and its finalized level."""
    with open_admin(target) as admin:
        found = retrying(target, admin.describe_features)
    rows = [_row(name, feature) for name, feature in sorted(found.items())]
    if as_json:
        emit_json(rows)
    else:
        table(("FEATURE", "MIN", "MAX", "LEVEL", "EPOCH"), [list(row.values()) for row in rows])


def _row(name: str, feature: dict[str, Any]) -> dict[str, Any]:
    """One feature as a row; a feature that is not finalized has level 0."""
    lowest, highest = feature.get("supported", (None, None))
    _, level = feature.get("finalized", (0, 0))
    return {
        "feature": name,
        "min_supported": lowest,
        "max_supported": highest,
        "level": level,
        "epoch": feature.get("finalized_epoch"),
    }


@features.command("upgrade", epilog="\b\nExample:\n  odradek features upgrade group.version=1 --dry-run")
@click.argument("levels", metavar="NAME=LEVEL...", type=Level(), nargs=-1)
@click.option("--feature", "more", type=Level(), multiple=True, help="The same as an option, as in kafka-features.")
@_dry_run
@connection_options
def upgrade(
    target: Target, *, levels: Sequence[tuple[str, int]], more: Sequence[tuple[str, int]], dry_run: bool
) -> None:
    """Raise features to the given levels: all of them, or none."""
    _update(target, [*levels, *more], UpgradeType.UPGRADE, dry_run=dry_run)


@features.command("downgrade", epilog="\b\nExample:\n  odradek features downgrade transaction.version=1")
@click.argument("levels", metavar="NAME=LEVEL...", type=Level(), nargs=-1)
@click.option("--feature", "more", type=Level(), multiple=True, help="The same as an option, as in kafka-features.")
@_unsafe
@_dry_run
@connection_options
def downgrade(
    target: Target, *, levels: Sequence[tuple[str, int]], more: Sequence[tuple[str, int]], unsafe: bool, dry_run: bool
) -> None:
    """Lower features to the given levels: all of them, or none."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _update(target, [*levels, *more], kind, dry_run=dry_run)


@features.command("disable", epilog="\b\nExample:\n  odradek features disable group.version")
@click.argument("names", metavar="NAME...", type=Text(), nargs=-1)
@click.option("--feature", "more", type=Text(), multiple=True, help="The same as an option, as in kafka-features.")
@_unsafe
@_dry_run
@connection_options
def disable(target: Target, *, names: Sequence[str], more: Sequence[str], unsafe: bool, dry_run: bool) -> None:
    """Disable features: the same as lowering them to level 0."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _update(target, [(name, 0) for name in (*names, *more)], kind, dry_run=dry_run)


def _update(target: Target, levels: Sequence[tuple[str, int]], kind: UpgradeType, *, dry_run: bool) -> None:
    wanted = dict(levels)
    if not wanted:
        raise click.UsageError("name at least one feature")
    if len(wanted) < len(levels):
        raise click.UsageError("a feature is named more than once")
    updates = {name: (int(kind), level) for name, level in wanted.items()}
    with open_admin(target) as admin:
        try:
            outcomes = retrying(target, lambda: admin.update_features(updates, validate_only=dry_run))
        except library().errors.BrokerResponseError as error:
            raise CliError(broker_error_text(error.errno, response_message(str(error)))) from error
    failures = [f"feature {name!r}: {client_error_text(text)}" for name, text in outcomes.items() if text != "OK"]
    if failures:
        raise CliError(*failures)
    for name, level in wanted.items():
        note(f"feature {name!r} {'can be set' if dry_run else 'set'} to level {level}")
