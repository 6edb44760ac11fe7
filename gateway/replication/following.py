"""The part of a replica that follows: it takes what the leader has, and cuts off what the leader never had.

A cut rewrites the log under all who use it. So it is an opening of the log anew: every call that needs it waits
(`PartitionLog.ensure_open`), and a role that the metadata assigns meanwhile is taken when it is done. The store makes
the cut and the rows of the producers that it has changed durable in one transaction (`PartitionStore.truncate`).
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.gateway.env.completion import Completion
from odradek.gateway.replication.partition import PartitionLog, ReplicaState
from odradek.partitions.follower import FetchPosition, Follower
from odradek.partitions.model import LogSnapshot, LogWrite
from odradek.partitions.producers import ProducerRowError
from odradek.partitions.results import EpochEnd, Rejected
from odradek.partitions.truncation import ProducerRebuild
from odradek.storage_backends.interface import PartitionStore, StoreError
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.errors import InvalidRecordBatch

log = logging.getLogger(__name__)

REBUILD_READ_BYTES: Final = 1 << 20


class FollowingLog(PartitionLog):
    """A log with what its follower does."""

    @property
    def follower(self) -> Follower | None:
        """The following role; None while the log is not open, or this broker leads."""
        role = self._role
        return role if self.state is ReplicaState.OPEN and isinstance(role, Follower) else None

    def is_held_back(self, *, in_sync: bool) -> bool:
        """Whether the log is not to be fetched now, since the throttle's rate is exceeded (KIP-73)."""
        if in_sync or not self._is_throttled:
            return False
        return self._resources.throttles.follower.is_exceeded(self._env.monotonic_ms())

    @property
    def _is_throttled(self) -> bool:
        return self.throttled_by(self._config.follower_replication_throttled_replicas)

    def stands_at(self, position: FetchPosition) -> Follower | None:
        """The following role, if an answer to a fetch from `position` is of use to it."""
        role = self.follower
        return role if role is not None and role.position == position else None

    def take_fetched(self, position: FetchPosition, records: memoryview) -> Completion[None] | Rejected | None:
        """Append what was fetched from `position`; None if the log no longer ends there.

        The completion settles when all of it is durable; only then may the follower send the next fetch.
        CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE refuse what the leader sent. Raises PartitionUnavailable.
        """
        role = self.stands_at(position)
        if role is None:
            return None
        self._check_writable()
        result = role.append(records)
        if isinstance(result, Rejected):
            return result
        self._resources.traffic.replicated_in_bytes += len(records)
        if self._is_throttled:
            self._resources.throttles.follower.record(len(records), self._env.monotonic_ms())
        if result.write.batches:
            self._submit(result.write, result.last_offset + 1)
        return self.durable(role.state.log_end_offset)

    def leader_reports(self, leader_epoch: int, high_watermark: int, log_start_offset: int) -> None:
        """Adopt the leader's high watermark and log start, once the records fetched with them are durable.

        A report from another epoch is ignored. Raises PartitionUnavailable.
        """
        role = self.follower
        if role is None or role.state.leader_epoch != leader_epoch:
            return
        self._committed(moved=role.leader_commits(high_watermark))
        write = role.leader_starts(log_start_offset)
        if write is not None:
            self._submit(write, role.state.log_end_offset)

    async def truncate(self, position: FetchPosition, diverging: EpochEnd) -> bool:
        """Cut off what the leader never had, as it has answered to a fetch from `position`; see `truncation.py`.

        False, and nothing is done, where the log does not stand there any more. Raises PartitionUnavailable. Once begun
        it is waited for also when cancelled.
        """
        async with self._opening:
            role = self.stands_at(position)
            if role is None:
                return False
            offset = role.truncation(diverging).offset
            end_offset, high_watermark = role.state.log_end_offset, role.state.high_watermark
            await self._rewrite(partial(cut, offset=offset))
        level = logging.WARNING if offset < high_watermark else logging.INFO
        text = "truncated partition=%s from=%d to=%d high_watermark=%d leader_epoch=%d its_end=%d"
        log.log(level, text, self.key, end_offset, offset, high_watermark, *diverging)
        return True

    async def begin_anew(self, position: FetchPosition, offset: int) -> bool:
        """Empty the log, which goes on at `offset`: the leader has deleted further than this log reaches.

        False, and nothing is done, where the log does not stand at `position` any more. Raises PartitionUnavailable.
        """
        async with self._opening:
            if self.stands_at(position) is None:
                return False
            await self._rewrite(partial(_restart, offset=offset))
        log.warning("the leader has deleted further partition=%s from=%d to=%d", self.key, position.offset, offset)
        return True

    async def _rewrite(self, call: Callable[[PartitionStore], LogSnapshot]) -> None:
        """Let `call` change the store's log between commits, and build the pure log from what is left.

        When it fails, the log is opened again by the next call that needs it.
        """
        part, queue, state = self._part, self._queue, self._log
        assert part is not None
        assert queue is not None
        assert state is not None
        self.state = ReplicaState.REWRITING
        try:
            state.truncated(await queue.exclusively(lambda: call(part)))
        except (StoreError, ProducerRowError, InvalidRecordBatch) as error:
            if self.state is ReplicaState.REWRITING:
                self.state = ReplicaState.FAILED
            self._recovery.failed(self._recovery.writing, "truncation failed", error)
            raise self._offline() from error
        if self.state is ReplicaState.REWRITING:
            self.state = ReplicaState.OPEN
            self._role, self._epoch_write = self._role_over(state)
            self.notify()


def cut(part: PartitionStore, offset: int) -> LogSnapshot:
    """Truncate at `offset`, and put the rows of producers that go with the end back from the batches that stay.

    Reads the batches below, as far back as the store does not have the producers' rows of that time; but not where
    nothing is cut off but epochs, or no producer has written. Blocks. Raises StoreError, InvalidRecordBatch,
    ProducerRowError.
    """
    before = part.load()
    if offset >= before.log_end_offset or not before.producers:
        return part.truncate(offset)
    known = part.producers_before(offset)
    rebuild, at = ProducerRebuild(known.rows), known.end_offset
    while at < offset:
        lease = part.read(at, offset, REBUILD_READ_BYTES)
        try:
            if not lease.chunks:
                break
            for chunk in lease.chunks:
                rebuild.add(chunk)
                for header in iter_headers(chunk):
                    at = header.next_offset
        finally:
            lease.release()
    return part.truncate(offset, rebuild.rows())


def _restart(part: PartitionStore, offset: int) -> LogSnapshot:
    part.commit([LogWrite(log_start_offset=offset)], sync=True)
    return part.load()
