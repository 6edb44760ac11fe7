"""Shared code of the database commands: types of options, and a job that runs until it is stopped."""

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
    """A job's name, which is used in a topic's name."""

    name = "job"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; fails with a usage error."""
        if not _JOB.fullmatch(str(value)):
            self.fail(f"{value!r} is not a job's name: up to 200 letters, digits, '.', '_' and '-'", param, ctx)
        return str(value)


class Names(click.ParamType[tuple[str, ...]]):
    """Names of columns, separated by commas."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names; fails with a usage error if one is empty or repeated."""
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
        """Return the name; fails with a usage error if there is no such zone."""
        try:
            ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is not a time zone such as UTC or Europe/Prague", param, ctx)
        return str(value)


class DatabaseJob(Protocol):
    """A job that can be run repeatedly."""

    def run(self, meter: Meter, stopped: Callable[[], bool] = ...) -> None:
        """Process everything available now, or until `stopped` returns True."""
        ...

    def waiting(self) -> int:
        """Return the amount of available work, for the progress line."""
        ...

    def recover(self) -> None:
        """Determine the job's progress again after a TransientError."""
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
    """Raise PipelineError or MissingError for a database that cannot be opened. JDBC URLs are checked by Spark."""
    if not is_jdbc(url):
        open_engine(url, exists=exists).dispose()


def run_job(job: DatabaseJob, label: str, every_s: float | None) -> None:
    """Run it once, or at an interval in seconds until a signal.

    With an interval, a TransientError is printed, and the job is run again after the interval.
    """
    if every_s is None:
        with meter(label, _total(job)) as bar:
            job.run(bar)
        return
    with stop_noticed() as stop, meter(label, None) as bar:
        is_behind = False  # True after a failure: the outcome of its transaction has to be determined
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
    """Return the total for the progress line; None if none is shown, since it takes a query."""
    import sys

    return job.waiting() if sys.stderr.isatty() else None
