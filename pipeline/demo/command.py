"""`odradek demo`."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import click

from odradek.gateway.cli.errors import ended_by


@click.command()
@click.option("--no-spark", is_flag=True, help="Leave Spark out also where it is installed, which is quicker.")
def demo(*, no_spark: bool) -> None:
    """See it work: 18,226 flights through a broker, read by a group of three consumers.

    A consumer and the broker are killed meanwhile. Then the totals of the file, of the group, of the log, of SQL and of
    a Spark table (where these are installed) are compared. All data are in a temporary folder, which is deleted at the
    end. The exit code is 1 if totals differ.

    \b
    Example:
      odradek demo
    """
    from rich.console import Console

    from odradek.pipeline.demo.story import Demo

    with _ended_by_sigterm(), Demo(Console(), with_spark=not no_spark) as run:
        agree = run.run()
    click.get_current_context().exit(0 if agree else 1)


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """Raise an error at SIGTERM, so that the block ends its processes and deletes its data, as at Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise ended_by(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
