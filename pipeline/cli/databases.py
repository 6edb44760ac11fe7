"""What the commands of databases share: their options' values, and a job that goes on until it is stopped."""

import re
from collections.abc import Callable
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from odradek.gateway.cli.options import Text
from odradek.gateway.cli.output import Meter, meter, note
from odradek.gateway.cli.signals import stop_noticed
from odradek.pipeline.databases.engine import TransientError, is_jdbc, open_engine

MOST_ROWS: Final = 1_000_000
_JOB: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class JobName(click.ParamType[str]):
    """A job's name, which a topic's name is made of."""

    name = "job"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; fails as wrong usage."""
        if not _JOB.fullmatch(str(value)):
            self.fail(f"{value!r} is not a job's name: up to 200 letters, digits, '.', '_' and '-'", param, ctx)
        return str(value)


class Names(click.ParamType[tuple[str, ...]]):
    """Names of columns with commas between them."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names; fails as wrong usage where one is empty or there twice."""
        if isinstance(value, tuple):
            return tuple(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        names = tuple(part.strip() for part in str(value).split(","))
        if not all(names) or len(set(names)) < len(names):
            self.fail(f"{value!r} is not a list of different columns such as id or region,id", param, ctx)
        return names


class Zone(click.ParamType[str]):
    """The name of a time zone."""

    name = "zone"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; fails as wrong usage where there is no such zone."""
        try:
            ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is not a time zone such as UTC or Europe/Prague", param, ctx)
        return str(value)


class DatabaseJob(Protocol):
    """A job that can be run again and again."""

    def run(self, meter: Meter, stopped: Callable[[], bool] = ...) -> None:
        """Process everything that is there now, or until `stopped` returns True."""
        ...

    def waiting(self) -> int:
        """How much there is to do now, for the progress line."""
        ...

    def recover(self) -> None:
        """Find out after a TransientError how far it has come."""
        ...


url_option = click.option(
    "--url",
    required=True,
    type=Text(),
    metavar="URL",
    envvar="ODRADEK_DATABASE_URL",
    show_envvar=True,
    help="The database, e.g. sqlite:///shop.db or postgresql+psycopg://user:password@host/shop.",
)
table_option = click.option(
    "--table", required=True, type=Text(), metavar="NAME", help="The table, with its schema as SCHEMA.TABLE."
)
job_option = click.option(
    "--job",
    "name",
    type=JobName(),
    metavar="NAME",
    help="The name under which it goes on where it ended.  [default: made of table and topic]",
)


def check_url(url: str, *, exists: bool) -> None:
    """Raise PipelineError or MissingError for a database that cannot be opened. JDBC's URLs are Spark's to check."""
    if not is_jdbc(url):
        open_engine(url, exists=exists).dispose()


def run_job(job: DatabaseJob, label: str, every_s: float | None) -> None:
    """Run it once, or every so many seconds until a signal comes; a database or Kafka that is away is waited for."""
    if every_s is None:
        with meter(label, _total(job)) as bar:
            job.run(bar)
        return
    with stop_noticed() as stop, meter(label, None) as bar:
        is_behind = False  # what was under way when it failed has to be looked up
        while not stop.number:
            try:
                if is_behind:
                    job.recover()
                job.run(bar, lambda: stop.number != 0)
                is_behind = False
            except TransientError as error:
                note(f"{error.message}; trying again in {every_s:g} s")
                is_behind = True
            stop.wait(every_s)


def _total(job: DatabaseJob) -> int | None:
    """The total for the progress line, if one is shown, since it takes a query; else None."""
    import sys

    return job.waiting() if sys.stderr.isatty() else None
