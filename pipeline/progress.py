"""The progress of a Spark job, for the progress line: the share of completed tasks."""

import threading
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, cast

from odradek.gateway.cli.output import Meter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.3
OpenMeter = Callable[[int], AbstractContextManager[Meter]]
"""Opens a progress line, given the total number of offsets."""


@contextmanager
def advancing(spark: "SparkSession", meter: Meter, records: int, size_bytes: int = 0) -> Generator[None]:
    """Advance the meter as tasks end, while the block runs Spark jobs over `records` of `size_bytes`.

    Each task of a batch reads a range of offsets of about the same length, so their share is the share of the records.
    At the end of the block the meter has advanced by all records; after an error by the completed part.
    """
    watch = _Watch(spark, meter, records, size_bytes)
    from pyspark import InheritableThread

    thread = InheritableThread(watch.run)  # closes the thread's connection to the JVM
    thread.daemon = True
    thread.start()
    try:
        yield
        watch.finish()
    finally:
        watch.ended.set()
        thread.join()


class _Watch:
    def __init__(self, spark: "SparkSession", meter: Meter, records: int, size_bytes: int) -> None:
        self.ended = threading.Event()
        self._context = spark.sparkContext
        self._group = f"odradek-{uuid.uuid1().hex}"
        self._context.setJobGroup(self._group, "odradek")
        self._meter, self._records, self._size_bytes = meter, records, size_bytes
        self._shown = (0, 0)
        self._lock = threading.Lock()

    def run(self) -> None:
        """Advance the meter every `POLL_S` until `ended` is set."""
        while not self.ended.wait(POLL_S):
            self._show(self._done_share())

    def finish(self) -> None:
        """Advance by the rest, after success."""
        self.ended.set()
        self._show(1.0)

    def _done_share(self) -> float:
        tracker = self._context.statusTracker()
        done = total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            stages = cast("Iterable[int]", job.stageIds) if job is not None else ()  # pyright: ignore[reportUnknownMemberType]
            for stage in map(tracker.getStageInfo, stages):
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return done / total if total else 0.0

    def _show(self, share: float) -> None:
        with self._lock:
            goal = round(self._records * share), round(self._size_bytes * share)
            records, size = (max(0, new - old) for new, old in zip(goal, self._shown, strict=True))
            self._shown = (self._shown[0] + records, self._shown[1] + size)
            self._meter.advance(records, size)
