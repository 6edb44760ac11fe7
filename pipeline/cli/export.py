"""`odradek pipeline export`."""

from pathlib import Path
from typing import Literal

import click

from odradek.gateway.cli.options import Text, TopicName
from odradek.pipeline.cli.databases import (
    MOST_ROWS,
    Names,
    job_option,
    run_job,
    table_option,
    url_option,
)
from odradek.pipeline.cli.options import JobContext, continuous_option, every_option, job_options


@click.command()
@click.argument("topic", type=TopicName())
@url_option
@table_option
@click.option(
    "--mode",
    type=click.Choice(["upsert", "append"]),
    default="upsert",
    show_default=True,
    help="One row a key, deleted by a null value, or one row a record.",
)
@click.option(
    "--key", type=Names(), default=(), metavar="COLUMN[,...]", help="The key's columns.  [default: the primary key]"
)
@click.option(
    "--key-from",
    type=click.Choice(["key", "value"]),
    default="key",
    show_default=True,
    help="Whether the key's columns are in the records' key or value.",
)
@click.option(
    "--value", type=click.Choice(["json", "avro"]), default="json", show_default=True, help="What the values are."
)
@click.option(
    "--schema",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The Avro schema of Avro values, or the columns that a new table gets for JSON values.  [default: inferred]",
)
@job_option
@click.option(
    "--batch-rows",
    type=click.IntRange(1, MOST_ROWS),
    default=2_000,
    show_default=True,
    help="How many records are written in one transaction.",
)
@click.option("--group", type=Text(), metavar="GROUP", help="A consumer group to publish the progress as.")
@continuous_option
@every_option
@job_options
def export(
    job: JobContext,
    *,
    topic: str,
    url: str,
    table: str,
    mode: Literal["upsert", "append"],
    key: tuple[str, ...],
    key_from: str,
    value: str,
    schema: Path | None,
    name: str | None,
    batch_rows: int,
    group: str | None,
    continuous: bool,
    every: float,
) -> None:
    """Export a topic's committed records to a database's table, each once.

    The table is created if it is missing. Offsets are kept in the same database (odradek_offsets), in the transactions
    that write the rows; records that cannot be converted to rows are stored in odradek_dead_letters, with the reason.
    SQLite and PostgreSQL are accessed with SQLAlchemy (`pip install 'odradek[spark,sql]'`).

    \b
    Example:
      odradek pipeline export orders --url sqlite:///copy.db --table orders --key id
    """
    if value == "avro" and schema is None:
        raise click.UsageError("--value avro needs --schema FILE")
    from odradek.pipeline.exporting import Export, Exporter, check_target

    what = Export(topic, url, table, mode, key, key_from == "value", value, schema, name, batch_rows, group)
    check_target(url)  # before Spark is started
    exporter = Exporter(job.spark(), job.connection, what)
    run_job(exporter, f"export {topic}", every if continuous else None)
    job.finish(exporter.report())
