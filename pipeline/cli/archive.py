"""`odradek pipeline archive`."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import click

from odradek.gateway.cli.errors import ended_by
from odradek.gateway.cli.options import Text, TopicName
from odradek.gateway.cli.output import counted, meter
from odradek.gateway.cli.signals import Stop, stop_noticed
from odradek.pipeline.archiving.planning import Start
from odradek.pipeline.cli.options import JobContext, continuous_option, every_option, job_options
from odradek.pipeline.cli.sizes import Size
from odradek.pipeline.values.parsing import INFERRED, KINDS, Parsing


class _From(click.ParamType[Start]):
    """The parameter type of a new table's start."""

    name = "start"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Return the parsed value; fails with a usage error."""
        if isinstance(value, Start):
            return value
        try:
            return Start.parse(str(value))
        except (ValueError, AttributeError):
            self.fail(
                f"{value!r} is none of `earliest`, `latest`, a time such as 2013-07-01T12:00:00Z, and offsets such as "
                '{"orders": {"0": 17}}',
                param,
                ctx,
            )


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, type=TopicName())
@click.option(
    "--to", "to", metavar="PATH", required=True, type=Text(), help="The table: a path, or a name for Iceberg."
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "iceberg"]),
    default="parquet",
    show_default=True,
    help="What the table is made of. Iceberg's catalog is configured by --conf.",
)
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    type=_From(),
    default="earliest",
    show_default=True,
    help="Where a new table begins: `earliest`, `latest`, a time, or offsets as JSON. A later run goes on.",
)
@continuous_option
@every_option
@click.option("-g", "--group", metavar="GROUP", type=Text(), help="Publish progress as this group's committed offsets.")
@click.option("--value", "value", type=click.Choice(KINDS), help="Parse values into the column `parsed`.")
@click.option(
    "--schema",
    metavar="FILE",
    help="Of values: DDL or JSON schema of Spark, .avsc, descriptor set; or `inferred` (JSON).",
)
@click.option("--key", "key", type=click.Choice(KINDS), help="Parse keys into the column `parsed_key`.")
@click.option("--key-schema", metavar="FILE", help="The same of keys.")
@click.option(
    "--framing",
    type=click.Choice(["none", "confluent"]),
    default="none",
    show_default=True,
    help="Whether Avro and Protobuf begin with the id of a Confluent registry's schema, which is skipped.",
)
@click.option("--drop-raw", is_flag=True, help="Leave out the columns that were parsed.")
@click.option(
    "--partition-by",
    type=click.Choice(["none", "date", "hour"]),
    default="none",
    show_default=True,
    help="Directories by the record's timestamp, in UTC.",
)
@click.option(
    "--target-size",
    metavar="SIZE",
    type=Size(),
    default="128MB",
    show_default=True,
    help="About how large files become.",
)
@click.option(
    "--max-offsets",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=2_000_000,
    show_default=True,
    help="About how many offsets a batch has: what a killed job repeats at most.",
)
@click.option("--allow-loss", is_flag=True, help="Exit with 0 also where retention was quicker than the archive.")
@job_options
def archive(
    topics: tuple[str, ...],
    *,
    job: JobContext,
    continuous: bool,
    every: float,
    **options: Any,  # noqa: ANN401 - of several types
) -> None:
    """Archive topics as a table: each record once, by topic, partition and offset.

    The next run continues at the table's end. The columns are topic, partition, offset, timestamp, timestampType, key,
    value and headers; records that cannot be parsed are written to PATH.dead-letters. The report explains every offset
    without a record.

    \b
    Examples:
      odradek pipeline archive hello --to ./hello-table
      odradek pipeline archive payments --to ./payments-table --value json --partition-by date
    """
    from odradek.pipeline.archiving.job import archive as run
    from odradek.pipeline.jars import ICEBERG

    chosen = _parsings(options)
    bar = functools.partial(meter, "archiving", shown=not job.as_json)
    spark = job.spark(packages=ICEBERG if chosen["table_format"] == "iceberg" else ())
    with stop_noticed() as stop:
        pace = _Pace(stop, every if continuous else None)
        report = run(
            spark,
            topics,
            connection=job.connection,
            pace=pace,
            meter=lambda total: bar(None if continuous else total),
            **chosen,
        )
    if stop.number and not continuous:
        report.incomplete("stopped before all was archived; the next run goes on")
    if stop.number:
        report.notes.append(f"stopped after {counted(report.written, 'record')}")
        _finish_stopped(job, report, stop)
    job.finish(report)


def _finish_stopped(job: JobContext, report: Any, stop: Stop) -> None:  # noqa: ANN401 - a Report
    with contextlib.suppress(click.exceptions.Exit):  # the exit code is the signal's, also for an incomplete report
        job.finish(report)
    raise ended_by(stop.number)


def _parsings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the function's options from those of the command; fails with a usage error if they contradict each
    other.
    """
    framing = options["framing"]
    rest = {name: value for name, value in options.items() if name not in {"schema", "key_schema", "framing"}}
    rest["target_size_bytes"] = rest.pop("target_size")
    schemas = {"value": options["schema"], "key": options["key_schema"]}
    for name, schema in schemas.items():
        rest[name] = _parsing(name, options[name], schema, framing)
    if options["drop_raw"] and not (options["value"] or options["key"]):
        raise click.UsageError("--drop-raw leaves out what --value or --key has parsed: give one of them")
    return rest


def _parsing(name: str, kind: Any, schema: str | None, framing: Any) -> Parsing | None:  # noqa: ANN401 - click's values
    option = "--schema" if name == "value" else "--key-schema"
    if kind is None:
        if schema is not None:
            raise click.UsageError(f"{option} needs --{name}")
        return None
    if schema in {None, INFERRED}:
        if kind != "json":
            raise click.UsageError(f"--{name} {kind} needs {option} FILE: only the fields of JSON can be inferred")
        return Parsing(kind)
    parsing = Parsing(kind, schema, framing)
    try:
        parsing.read_schema()
    except OSError as error:
        raise click.BadParameter(f"{schema}: {error.strerror}", param_hint=f"'{option}'") from error
    return parsing


class _Pace:
    """Runs once, or at an interval in seconds; a signal ends both after the current batch."""

    def __init__(self, stop: Stop, every_s: float | None) -> None:
        self._stop, self._every_s = stop, every_s

    def goes_on(self) -> bool:
        """See Pace."""
        return self._stop.number == 0

    def wait_for_more(self) -> bool:
        """See Pace."""
        if self._every_s is None:
            return False
        self.pause(self._every_s)
        return self.goes_on()

    def pause(self, seconds: float) -> None:
        """Wait, until a signal at the latest."""
        self._stop.wait(seconds)
