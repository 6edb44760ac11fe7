"""`odradek pipeline load`."""

from pathlib import Path

import click

from odradek.gateway.cli.options import TopicName
from odradek.pipeline.cli.databases import (
    MOST_ROWS,
    Names,
    Zone,
    check_url,
    job_option,
    run_job,
    table_option,
    url_option,
)
from odradek.pipeline.cli.options import JobContext, continuous_option, every_option, job_options
from odradek.pipeline.cli.sizes import Interval


@click.command()
@url_option
@table_option
@click.option("--to-topic", "topic", required=True, type=TopicName(), metavar="TOPIC", help="The topic.")
@click.option("--incrementing", type=Names(), metavar="COLUMN", help="A column that only grows, in every new row.")
@click.option(
    "--timestamp",
    type=Names(),
    default=(),
    metavar="COLUMN[,...]",
    help="A column with the time of a row's last change; of several, the first that is not NULL.",
)
@click.option("--bulk", is_flag=True, help="Load the whole table, once.")
@click.option(
    "--key", type=Names(), metavar="COLUMN[,...]", help="The columns of the records' key.  [default: the primary key]"
)
@click.option("--no-key", is_flag=True, help="Write records without a key.")
@click.option(
    "--value",
    type=click.Choice(["json", "avro"]),
    default="json",
    show_default=True,
    help="What values are written as.",
)
@click.option(
    "--schema",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --value avro: the file to write the schema to, or that has it.",
)
@job_option
@click.option(
    "--batch-rows",
    type=click.IntRange(1, MOST_ROWS),
    default=10_000,
    show_default=True,
    help="How many rows are read at a time and written in one transaction.",
)
@click.option(
    "--delay",
    type=Interval(zero=True),
    default="0s",
    show_default=True,
    metavar="TIME",
    help="With --timestamp: leave rows that are younger to a later look, since older ones may still be committed.",
)
@click.option(
    "--zone", type=Zone(), default="UTC", show_default=True, metavar="NAME", help="The zone of times that have none."
)
@continuous_option
@every_option
@job_options
def load(
    job: JobContext,
    *,
    url: str,
    table: str,
    topic: str,
    incrementing: tuple[str, ...] | None,
    timestamp: tuple[str, ...],
    bulk: bool,
    key: tuple[str, ...] | None,
    no_key: bool,
    value: str,
    schema: Path | None,
    name: str | None,
    batch_rows: int,
    delay: float,
    zone: str,
    continuous: bool,
    every: float,
) -> None:
    """Load the rows of a database's table into a topic, each once.

    New rows are found by a column that grows (--incrementing), changed ones by a time (--timestamp), or both; --bulk
    loads the table as it is. The next run continues after the last row in the topic. The database is reached through
    SQLAlchemy (`pip install 'odradek[spark,sql]'`), or with jdbc:… through Spark and the jar that --conf spark.jars
    names.

    \b
    Example:
      odradek pipeline load --url sqlite:///shop.db --table orders --incrementing id --to-topic orders
    """
    if incrementing is not None and len(incrementing) > 1:
        raise click.BadParameter("it is one column", param_hint="--incrementing")
    if bulk == bool(incrementing or timestamp):
        raise click.UsageError("give --incrementing, --timestamp or both, or --bulk")
    if bulk and continuous:
        raise click.UsageError("--bulk loads a table once: it does not go with --continuous")
    if no_key and key:
        raise click.UsageError("--key does not go with --no-key")
    if (schema is not None) != (value == "avro"):
        raise click.UsageError("--schema goes with --value avro, and --value avro with --schema")
    from odradek.pipeline.loading import Load, Loader

    what = Load(
        url, table, topic, incrementing[0] if incrementing else None, timestamp, () if no_key else key, value, schema,
        name, batch_rows, delay, zone,
    )  # fmt: skip
    check_url(url, exists=True)  # before Spark is started
    loader = Loader(job.spark(), job.connection, what)
    run_job(loader, f"load {table}", every if continuous else None)
    job.finish(loader.report())
