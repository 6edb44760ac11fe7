"""A test's control of its broker's disk: full, or slow.

The faults are those of `storage_backends.faulty`, which the simulation draws at random, and which a test scripts here.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from odradek.gateway.testing.kit.wrapped import WrappedEnvironment
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.interface import DiskFullError, Store

if TYPE_CHECKING:
    from odradek.gateway.env.environment import Environment


class Disk:
    """The disk of one broker, also after a restart. All methods may be called from any thread, and none blocks.

    While it is full, writes fail as on a real full disk: producers get KAFKA_STORAGE_ERROR, groups cannot commit, and
    reads are served. The metadata log is written from the store's reserve, so that topics can be deleted.
    """

    def __init__(self) -> None:
        self._plan = _Script()

    @property
    def is_full(self) -> bool:
        """True between `fill` and `free`."""
        return self._plan.is_full

    @property
    def failed_writes(self) -> int:
        """The number of writes that have failed since the broker object was made."""
        return self._plan.failed_calls

    def fill(self) -> None:
        """Leave no space for further records."""
        self._plan.is_full = True

    def free(self) -> None:
        """There is space again. The broker's next attempt to write succeeds; it pauses up to 0.2 s between attempts."""
        self._plan.is_full = False

    @contextmanager
    def full(self) -> Generator[None]:
        """The disk is full within the block."""
        self.fill()
        try:
            yield
        finally:
            self.free()

    @contextmanager
    def slow(self, seconds: float) -> Generator[None]:
        """Each write takes so many seconds more within the block; those that wait at its end are done then."""
        self._plan.slow_down(seconds)
        try:
            yield
        finally:
            self._plan.slow_down(0)

    def restore(self) -> None:
        """There is space, and writes are quick."""
        self.free()
        self._plan.slow_down(0)

    def around(self, environment: "Environment") -> "Environment":
        """An environment that opens its stores on this disk (`TestBroker.around`)."""
        return _Environment(environment, self._plan)


class _Script(FaultPlan):
    """The faults of a disk, switched on and off instead of drawn."""

    def __init__(self) -> None:
        super().__init__(Random(0))  # noqa: S311 - nothing is drawn from it
        self.is_full = False
        self._delay_s = 0.0
        self._is_quick = threading.Event()

    def slow_down(self, seconds: float) -> None:
        """Let each further write take so many seconds more, and those that wait end now."""
        self._is_quick.set()
        self._is_quick, self._delay_s = threading.Event(), seconds
        self.mix.slow = 1.0 if seconds else 0.0  # commits then run in threads, where they may wait

    def before_write(self, what: str) -> None:
        """See `FaultPlan.before_write`. Only a log's writes need space that may be used up."""
        if self.is_full and what.startswith("writing ") and not what.endswith(f" {METADATA_KEY}"):
            self.failed_calls += 1
            raise DiskFullError(f"{what}: no space left (scripted fault)")

    def before_read(self, what: str) -> None:
        """See `FaultPlan.before_read`: reads are quick, as from the page cache."""

    def maybe_wait(self) -> None:
        """See `FaultPlan.maybe_wait`: after a write, in a thread of its own."""
        if self._delay_s:
            self._is_quick.wait(self._delay_s)

    def is_slow_first(self) -> bool:
        """See `FaultPlan.is_slow_first`."""
        return False


class _Environment(WrappedEnvironment):
    def __init__(self, inner: "Environment", plan: FaultPlan) -> None:
        super().__init__(inner)
        self._plan = plan

    def open_store(self, url: str) -> Store:
        """See `Environment.open_store`."""
        return FaultyStore(super().open_store(url), self._plan)
