"""The options common to all jobs, and the output of a finished job."""

# ruff: noqa: ANN401 - `job_options` passes on any parameters of a command

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import DEFAULT_BOOTSTRAP, split_address
from odradek.gateway.cli.options import bootstrap_option, finite, json_option
from odradek.gateway.cli.output import emit_json, note
from odradek.pipeline.cli.sizes import Interval
from odradek.pipeline.connection import DEFAULT_TIMEOUT_S, Connection
from odradek.pipeline.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.pipeline.jars import Jar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class JobContext:
    """The values of the shared options: the Kafka, the Spark master, and the form of the report."""

    connection: Connection
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    as_json: bool = False

    def spark(self, *, packages: "Sequence[Jar]" = ()) -> "SparkSession":
        """Return the Spark session of this job."""
        from odradek.pipeline.session import spark_session

        return spark_session(
            connection=self.connection,
            master=self.master,
            conf=self.conf,
            packages=packages,
            app_name=f"odradek {click.get_current_context().info_name}",
        )

    def finish(self, report: Report) -> None:
        """Print the report; exit with code 1 if it is incomplete."""
        if self.as_json:
            emit_json(report.as_json())
        else:
            report.print_table()
            for line in report.notes:
                note(line)
        if not report.complete:
            click.get_current_context().exit(1)


def job_options(command: F) -> F:
    """Add --bootstrap, --timeout, -X, --master, --conf and --json, which a command receives as `job: JobContext`."""
    return _with(command, (*_KAFKA_OPTIONS, *_SPARK_OPTIONS, json_option))


def spark_options(command: F) -> F:
    """As `job_options`, for a job that does not use Kafka."""
    return _with(command, (*_SPARK_OPTIONS, json_option))


def kafka_options(command: F) -> F:
    """As `job_options`, for a job that does not use Spark."""
    return _with(command, (*_KAFKA_OPTIONS, json_option))


def _with(command: F, options: Sequence[Callable[[Any], Any]]) -> F:
    @functools.wraps(command)
    def with_context(
        *args: Any,
        as_json: bool,
        bootstrap: str = DEFAULT_BOOTSTRAP,
        timeout: float = DEFAULT_TIMEOUT_S,
        properties: tuple[tuple[str, str], ...] = (),
        master: str | None = None,
        conf: tuple[tuple[str, str], ...] = (),
        **rest: Any,
    ) -> Any:
        for address in bootstrap.split(","):
            split_address(address)  # a usage error, whether or not Kafka is reachable
        _check_master(master, dict(conf))
        connection = Connection(bootstrap, dict(properties), timeout)
        return command(*args, job=JobContext(connection, master, dict(conf), as_json), **rest)

    for option in reversed(options):
        with_context = option(with_context)
    return with_context  # type: ignore[return-value]


def _check_master(master: str | None, conf: Mapping[str, str]) -> None:
    """Raise a usage error if --master and --conf name two masters."""
    other = conf.get("spark.master", master)
    if master is not None and other != master:
        raise click.UsageError(f"--master {master} contradicts --conf spark.master={other}")


_KAFKA_OPTIONS = (
    bootstrap_option,
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0.1),
        callback=finite,
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        help="How long an answer of the cluster to a request for metadata or offsets may take.",
    ),
    click.option(
        "-X",
        "properties",
        metavar="NAME=VALUE",
        type=Assignment(),
        multiple=True,
        help="A client setting, e.g. -X security.protocol=SASL_SSL -X sasl.mechanism=PLAIN. Repeatable.",
    ),
)
_SPARK_OPTIONS = (
    click.option("--master", metavar="URL", help="Where Spark runs, e.g. spark://host:7077.  [default: local[*]]"),
    click.option(
        "--conf",
        metavar="NAME=VALUE",
        type=Assignment(),
        multiple=True,
        help="A Spark setting, e.g. --conf spark.driver.memory=4g. Repeatable.",
    ),
)
continuous_option = click.option(
    "--continuous", is_flag=True, help="Go on until SIGTERM or Ctrl-C; the batch under way is finished."
)
every_option = click.option(
    "--every",
    metavar="DURATION",
    type=Interval(),
    default="10s",
    show_default=True,
    help="With --continuous: how long to wait between looks, e.g. 10s or 5m.",
)
