"""`odradek pipeline audit`."""

import functools

import click

from odradek.gateway.cli.client import split_address
from odradek.gateway.cli.options import Text, TopicName, is_topic_name
from odradek.gateway.cli.output import meter
from odradek.pipeline.cli.options import JobContext, kafka_options


class ElsewhereType(click.ParamType[tuple[str, str]]):
    """A topic of another cluster: HOST:PORT/TOPIC."""

    name = "topic"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the addresses and the topic; fails with a usage error."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        bootstrap, _, topic = str(value).rpartition("/")
        if not bootstrap or not is_topic_name(topic):
            self.fail(f"{value!r} is not HOST:PORT/TOPIC", param, ctx)
        for address in bootstrap.split(","):
            try:
                split_address(address)
            except click.BadParameter as error:
                self.fail(error.message, param, ctx)
        return bootstrap, topic


@click.command()
@click.argument("topic", type=TopicName())
@click.option("--archive", metavar="PATH", type=Text(), help="Compare with an archived table.")
@click.option(
    "--data",
    metavar="DIR",
    type=Text(),
    help="Compare with a broker's data directory, as --data of `odradek serve` (there by default ./odradek-data).",
)
@click.option(
    "--against", metavar="HOST:PORT/TOPIC", type=ElsewhereType(), help="Compare with a topic of another cluster."
)
@click.option("--html", metavar="FILE", type=Text(), help="Write a page with plots, which opens offline.")
@kafka_options
def audit(
    topic: str,
    *,
    job: JobContext,
    archive: str | None,
    data: str | None,
    against: tuple[str, str] | None,
    html: str | None,
) -> None:
    """Audit a topic: read all of it, explain every offset, and compare it with its copies record by record.

    The table counts records READ, those WRITTEN to stay (not aborted) and the offsets SKIPPED, by reason. Exit code 1
    where something is unexplained or different: offsets missing, sequences used again or left out, damaged batches,
    other records.

    \b
    Example:
      odradek pipeline audit hello --html hello.html
    """
    from odradek.pipeline.auditing import audit as run
    from odradek.pipeline.connection import Connection

    mine = job.connection
    other = None if against is None else (Connection(against[0], mine.properties, mine.timeout_s), against[1])
    bar = functools.partial(meter, f"auditing {topic}", shown=not job.as_json)
    report = run(mine, topic, archive=archive, data=data, against=other, html=html, meter=bar)
    job.finish(report)
