"""`odradek pipeline restore`."""

from pathlib import Path
from urllib.parse import urlsplit

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.options import INT64_MAX, TopicName, codec_option
from odradek.pipeline.cli.options import JobContext, job_options
from odradek.pipeline.restoring.bounds import Bound, parse_bound


class BoundType(click.ParamType[Bound]):
    """An offset, an offset for each partition as JSON, or a time."""

    name = "bound"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Bound:
        """Return the parsed value; fails with a usage error."""
        if isinstance(value, Bound):
            return value
        try:
            return parse_bound(str(value))
        except ValueError:
            self.fail(f'{value!r} is no offset, no JSON such as {{"0": 100}} and no time', param, ctx)


def _existing(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return the path; fails with a usage error, before Spark is started, if it is local and does not exist."""
    if not urlsplit(value).scheme and not Path(value).exists():
        raise click.BadParameter(f"there is nothing at {value!r}")
    return value


@click.command()
@click.argument("path", metavar="PATH", callback=_existing)
@click.option("--to-topic", metavar="TOPIC", type=TopicName(), required=True, help="Created where it is missing.")
@click.option("--from-topic", metavar="TOPIC", type=TopicName(), help="Which one, where the table holds several.")
@click.option(
    "--from",
    "start",
    metavar="OFFSET|JSON|TIME",
    type=BoundType(),
    default=Bound(),
    help='Begin here: 1000, \'{"0": 1000, "1": 0}\' or 2013-07-01T12:00:00Z.  [default: the first record]',
)
@click.option(
    "--until",
    metavar="OFFSET|JSON|TIME",
    type=BoundType(),
    default=Bound(),
    help="End before this.  [default: behind the last record]",
)
@click.option("--renumber", is_flag=True, help="Append with new offsets; headers odradek.source.* tell the old ones.")
@codec_option
@click.option(
    "--max-fill",
    type=click.IntRange(0, INT64_MAX),
    default=100_000,
    show_default=True,
    help="Fill at most so many offsets that have no record, where the target is not an Odradek.",
)
@click.option(
    "-c",
    "--topic-config",
    "topic_config",
    metavar="NAME=VALUE",
    type=Assignment(),
    multiple=True,
    help="A setting of the topic where it is created; retention.ms is -1 unless given. Repeatable.",
)
@job_options
def restore(
    job: JobContext,
    *,
    path: str,
    to_topic: str,
    from_topic: str | None,
    start: Bound,
    until: Bound,
    renumber: bool,
    codec: str,
    max_fill: int,
    topic_config: tuple[tuple[str, str], ...],
) -> None:
    """Write a table's records into a topic: the same partitions, offsets, keys, values, headers and timestamps.

    PATH is a table of `odradek pipeline archive`. A repeated run, also after a crash, continues at the topic's end and
    never duplicates a record. A topic with other records is refused, unless with --renumber.

    \b
    Examples:
      odradek pipeline archive hello --to ./hello-table
      odradek pipeline restore ./hello-table --to-topic hello-again
    """
    from odradek.pipeline.restoring.job import restore as run

    report = run(
        job.spark(),
        path,
        connection=job.connection,
        to_topic=to_topic,
        from_topic=from_topic,
        start=start,
        until=until,
        renumber=renumber,
        codec=codec,
        max_fill=max_fill,
        topic_config=dict(topic_config),
        shown=not job.as_json,
    )
    job.finish(report)
