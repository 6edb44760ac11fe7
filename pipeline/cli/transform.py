"""`odradek pipeline transform`."""

from contextlib import nullcontext

import click

from odradek.gateway.cli.options import INT64_MAX, Text, TopicName, codec_option
from odradek.gateway.cli.signals import Stop, stop_noticed
from odradek.pipeline.cli.options import JobContext, continuous_option, every_option, job_options


@click.command()
@click.option("--from-topic", metavar="TOPIC", type=TopicName(), required=True, help="Read this one.")
@click.option("--to-topic", metavar="TOPIC", type=TopicName(), required=True, help="Created where it is missing.")
@click.option("--sql", type=Text(), help="A query over the view `records`, which has the columns of format('kafka').")
@click.option(
    "--function", metavar="MODULE:NAME", type=Text(), help="Or a function of that DataFrame that gives another."
)
@click.option("--group", type=Text(), help="Whose offsets tell how far it is.  [default: named after both topics]")
@click.option(
    "--batch",
    type=click.IntRange(1, INT64_MAX),
    default=1_000_000,
    show_default=True,
    help="Offsets in one transaction.",
)
@codec_option
@continuous_option
@every_option
@job_options
def transform(
    job: JobContext,
    *,
    from_topic: str,
    to_topic: str,
    sql: str | None,
    function: str | None,
    group: str | None,
    batch: int,
    codec: str,
    continuous: bool,
    every: float,
) -> None:
    """Write what SQL or a Python function makes of a topic to another topic of the same Kafka.

    The result has a column `value`, and optionally `key`, `headers`, `timestamp`, `partition`. Records and progress are
    committed in one transaction: a reader with read_committed sees each result exactly once, also after crashes.

    \b
    Example:
      odradek pipeline transform --from-topic hello --to-topic keyed --sql "SELECT * FROM records WHERE key IS NOT NULL"
    """
    from odradek.pipeline.transforming.job import transform as run
    from odradek.pipeline.transforming.query import from_function, from_sql

    if (sql is None) == (function is None):
        raise click.UsageError("one of --sql and --function is needed")
    change = from_sql(sql) if sql is not None else from_function(function or "")
    with stop_noticed() if continuous else nullcontext(Stop()) as stop:
        report = run(
            job.spark(),
            change,
            connection=job.connection,
            from_topic=from_topic,
            to_topic=to_topic,
            group=group,
            batch=batch,
            codec=codec,
            every_s=every if continuous else None,
            stopped=stop.wait,
            shown=not job.as_json,
        )
    job.finish(report)
