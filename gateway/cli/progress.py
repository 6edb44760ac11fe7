"""The progress line of long work, drawn by rich on stderr. Imported only where it is needed: importing rich is slow."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

FORGET_AFTER_S = 10.0


class RichMeter:
    """A `Meter`: updates one rich task with the number of records and their rate."""

    def __init__(self, progress: Progress, task: TaskID, *, of_bytes: bool) -> None:
        self._progress = progress
        self._task = task
        self._of_bytes = of_bytes
        self._records = 0

    def advance(self, records: int, size_bytes: int) -> None:
        """Add `records` and `size_bytes`; cheap enough to call once a poll, not once a record."""
        self._records += records
        elapsed_s = self._progress.tasks[0].elapsed or 0.0
        rate = f"{self._records / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
        done = size_bytes if self._of_bytes else records
        self._progress.update(self._task, advance=done, records=f"{self._records:,}", rate=rate)


@contextmanager
def rich_meter(label: str, total: int | None, *, of_bytes: bool) -> Generator[RichMeter]:
    """Draw the line while the block runs, and remove it afterwards."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[records]} records"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=FORGET_AFTER_S
    ) as progress:
        task = progress.add_task(label, total=total, records="0", rate="")
        yield RichMeter(progress, task, of_bytes=of_bytes)
