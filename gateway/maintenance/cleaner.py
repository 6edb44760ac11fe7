"""Compaction of logs with `cleanup.policy=compact`, the dirtiest first, in steps in worker threads.

Between two steps (of `log.cleaner.io.buffer.size` bytes read) other tasks run, and the broker may stop. The cleaned run
of segments is written to separate files and swapped in between two commits. After a stop or a failure, the next
cleaning pass does the remaining work. After its second failure in a row a log is tried again after a pause, which grows
from `log.cleaner.backoff.ms` to ten minutes; the others are cleaned meanwhile. A log that cannot be decoded, or whose
cleaning fails because of a defect, is not cleaned until the next start.

The modules of the cleaning are imported for the first log to be compacted, so that a broker starts faster.
"""

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.maintenance.retention import RetentionTask
from odradek.gateway.replication.recovery import Backoff, RetryTimer, shared_cause
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.config import NO_LIMIT
from odradek.storage_backends.interface import StoreError
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.errors import InvalidRecordBatch

if TYPE_CHECKING:
    from odradek.partitions.compaction.plan import Cleaning

log = logging.getLogger(__name__)

MAX_PAUSE_MS: Final = 600_000
"""The longest pause after failures of a log, unless `log.cleaner.backoff.ms` is longer."""


class LogCleaner:
    """Compacts logs while the broker runs."""

    def __init__(
        self, replicas: Replicas, retention: RetentionTask, env: Environment, config: Callable[[], BrokerConfig]
    ) -> None:
        self._replicas = replicas
        self._retention = retention
        self._env = env
        self._config = config
        self._resized = Signal()
        self.workers: dict[int, Signal] = {}
        """The signals of the workers by number; each has its own, since a signal wakes one task."""
        self._busy: set[Replica] = set()
        self._uncleanable: set[Replica] = set()
        self._failing: dict[Replica, RetryTimer] = {}

    def wake(self) -> None:
        """Search for dirty logs now: settings have changed."""
        for signal in (self._resized, *self.workers.values()):
            signal.wake()

    async def run(self) -> None:
        """Clean with `log.cleaner.threads` workers until cancelled; a change of that setting takes effect at once."""
        if not self._config().log_cleaner_enable:
            return
        async with trio.open_nursery() as nursery:
            while True:
                for number in range(self._config().cleaner_threads):
                    if number not in self.workers:
                        self.workers[number] = Signal()
                        nursery.start_soon(self._work, number)
                await self._resized.wait()

    async def _work(self, number: int) -> None:
        """Clean as worker `number`, as long as `log.cleaner.threads` is greater than that."""
        while number < self._config().cleaner_threads:
            if not await self.clean_dirtiest():
                await self.workers[number].wait(self._config().log_cleaner_backoff_ms)
        del self.workers[number]

    async def clean_dirtiest(self) -> bool:
        """Clean the dirtiest log that is due; False if none is, or if the worker must pause before the next attempt.

        True also for a log that cannot be decoded, which is excluded from now on, and for one that fails for a cause of
        its own, which is excluded for a while: the next can be cleaned at once.
        """
        found = await self._dirtiest()
        if found is None:
            return False
        from odradek.gateway.maintenance.cleaning_pass import CleaningPass, LogChanged

        replica, cleaning = found
        self._busy.add(replica)
        try:
            await CleaningPass(replica, cleaning, self._env, self._config()).run()
        except LogChanged:
            log.info("cleaning begun in vain, the log has changed partition=%s", replica.key)
            self._failed(replica)
        except InvalidRecordBatch as error:
            log.error("log cannot be compacted partition=%s cause=%s", replica.key, error)  # noqa: TRY400
            self._uncleanable.add(replica)
        except (PartitionUnavailable, StoreError) as error:
            self._note(("clean", replica.key), error, "cleaning failed partition=%s cause=%s", replica.key, error)
            self._failed(replica)
            return not shared_cause(error)
        except Exception:  # noqa: BLE001 - logged with its trace
            self._exclude(replica)
            return False
        else:
            self._failing.pop(replica, None)
        finally:
            self._busy.discard(replica)
        return True

    def _failed(self, replica: Replica) -> None:
        """Note a failed pass over a log: it must not keep the cleaner from the other logs."""
        timer = self._failing.get(replica)
        if timer is None:
            backoff_ms = max(self._config().log_cleaner_backoff_ms, 1)
            timer = RetryTimer(self._env, Backoff(backoff_ms, max(backoff_ms, MAX_PAUSE_MS)))
            self._failing[replica] = timer
        timer.failed()

    def _is_excluded(self, replica: Replica) -> bool:
        timer = self._failing.get(replica)
        return replica in self._busy or replica in self._uncleanable or (timer is not None and timer.wait_ms > 0)

    async def _dirtiest(self) -> "tuple[Replica, Cleaning] | None":
        due: list[tuple[float, int, Replica, Cleaning]] = []
        try:
            stored = await self._replicas.all_stored()
        except StoreError as error:
            self._note("list", error, "the cleaner cannot list the logs, tried again cause=%s", error)
            return None
        kept = self._failing.keys() & set(stored) if self._failing else ()
        self._failing = {replica: self._failing[replica] for replica in kept}
        for number, replica in enumerate(stored):
            if not replica.config.is_compacted or self._is_excluded(replica):
                continue
            if replica.config.is_deleted:
                await self._retention.check(replica)
            cleaning = await self._look_at(replica)
            if cleaning is not None and cleaning.is_due:
                due.append((cleaning.dirty_ratio, -number, replica, cleaning))
        best = max(due, default=None, key=lambda each: each[:2])
        return None if best is None or best[2] in self._busy else best[2:]

    def _note(self, what: Hashable, error: Exception, message: str, *args: object) -> None:
        key = ("cleaner", shared_cause(error) or what)
        self._replicas.repeats.note(key, log, logging.WARNING, message, *args)

    async def _look_at(self, replica: Replica) -> "Cleaning | None":
        """The cleaning that a log needs; None if the log is not available now."""
        try:
            return await self._planned(replica)
        except (PartitionUnavailable, StoreError, InvalidRecordBatch) as error:
            what = ("look", replica.key)
            self._note(what, error, "cannot look for dirty segments partition=%s cause=%s", replica.key, error)
        except Exception:  # noqa: BLE001 - logged with its trace
            self._exclude(replica)
        return None

    async def _planned(self, replica: Replica) -> "Cleaning":
        from odradek.partitions.compaction.plan import first_dirty_offset, plan_cleaning

        view = await replica.view()
        config = replica.config
        dirty = first_dirty_offset(view.clean_offset, view.log_start_offset, view.log_end_offset)
        oldest_ms = None
        if config.max_compaction_lag_ms != NO_LIMIT and dirty < view.segments[-1].base_offset:
            oldest_ms = await _first_timestamp(replica, dirty)
        return plan_cleaning(
            view.segments,
            first_dirty=dirty,
            last_stable_offset=view.last_stable_offset,
            config=config,
            now_ms=self._env.wall_ms(),
            oldest_dirty_ms=oldest_ms,
        )

    def _exclude(self, replica: Replica) -> None:
        """Clean this log no more after an unexpected exception, which concerns it alone and must not end the broker."""
        log.exception("log cannot be compacted because of a defect partition=%s", replica.key)
        self._uncleanable.add(replica)


async def _first_timestamp(replica: Replica, offset: int) -> int | None:
    await replica.ensure_open()
    lease = await replica.read(offset, replica.log.high_watermark, 0)
    try:
        return next((header.max_timestamp for chunk in lease.chunks for header in iter_headers(chunk)), None)
    finally:
        replica.give_back(lease)
