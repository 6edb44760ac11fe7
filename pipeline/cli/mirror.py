"""`odradek mirror`."""

import re
from collections.abc import Callable
from typing import Any

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import split_address
from odradek.gateway.cli.options import finite
from odradek.gateway.cli.output import emit_json, note
from odradek.gateway.cli.signals import stop_noticed
from odradek.pipeline.connection import DEFAULT_TIMEOUT_S, Connection

SIGNALLED = 128
"""The exit code of a command ended by a signal is this plus the signal's number."""


class Regex(click.ParamType[str]):
    """A Python regular expression."""

    name = "regex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; fails with a usage error if it is not a regular expression."""
        try:
            re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}", param, ctx)
        return str(value)


class Addresses(click.ParamType[str]):
    """Addresses of brokers."""

    name = "addresses"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; fails with a usage error if an address is not HOST:PORT."""
        for address in str(value).split(","):
            try:
                split_address(address)
            except click.BadParameter as error:
                self.fail(error.message, param, ctx)
        return str(value)


def _address(name: str, what: str) -> Callable[[Any], Any]:
    help_text = f"Brokers of the cluster {what}; any Kafka will do."
    return click.option(
        f"--{name}", f"{name}_", metavar="HOST:PORT[,...]", type=Addresses(), required=True, help=help_text
    )


def _settings(flag: str, name: str, help_text: str) -> Callable[[Any], Any]:
    return click.option(flag, name, metavar="NAME=VALUE", type=Assignment(), multiple=True, help=help_text)


@click.command()
@_address("from", "to copy from")
@_address("to", "to copy to")
@click.option(
    "--topics", metavar="REGEX", type=Regex(), default=".*", help="Topics, by their whole names.  [default: all]"
)
@click.option(
    "--groups", metavar="REGEX", type=Regex(), help="Groups whose committed offsets are copied, too.  [default: none]"
)
@click.option("--continuous/--once", default=False, help="Go on until stopped, or copy what is there now.  [once]")
@click.option("--append", is_flag=True, help="Copy behind what others have written into a topic of the target.")
@_settings("-X", "both_settings", "A client setting for both clusters, e.g. -X security.protocol=SSL. Repeatable.")
@_settings("--from-X", "from_settings", "A client setting for the cluster to copy from. Repeatable.")
@_settings("--to-X", "to_settings", "A client setting for the cluster to copy to. Repeatable.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    callback=finite,
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="How long an answer of a cluster may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the closing report as JSON.")
def mirror(
    *,
    from_: str,
    to_: str,
    topics: str,
    groups: str | None,
    continuous: bool,
    append: bool,
    both_settings: tuple[tuple[str, str], ...],
    from_settings: tuple[tuple[str, str], ...],
    to_settings: tuple[tuple[str, str], ...],
    timeout: float,
    as_json: bool,
) -> None:
    """Copy topics from one Kafka to another, each record exactly once.

    Topics that the target lacks are created with the same partitions and settings. An Odradek gets the batches as they
    are, with the same offsets; another Kafka gets the records, with a map from the old offsets to the new ones. The
    next run continues after a stop or a crash.

    \b
    Example:
      odradek mirror --from old:9092 --to localhost:9092 --topics 'orders.*' --continuous
    """
    from odradek.pipeline.mirroring import mirror as run

    source = Connection(from_, {**dict(both_settings), **dict(from_settings)}, timeout)
    target = Connection(to_, {**dict(both_settings), **dict(to_settings)}, timeout)
    with stop_noticed() as stop:
        report = run(
            source,
            target,
            topics=topics,
            groups=groups,
            continuous=continuous,
            append=append,
            stopping=lambda: stop.number != 0,
        )
    if as_json:
        emit_json(report.as_json())
    else:
        report.print_table()
        for line in report.notes:
            note(line)
    if stop.number and not continuous:
        click.get_current_context().exit(SIGNALLED + stop.number)
    if not report.complete:
        click.get_current_context().exit(1)
