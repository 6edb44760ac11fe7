"""The following part of a replica: appends the leader's records, and truncates records that the leader does not have.

A truncation rewrites a log that is in use. So it works like reopening the log: every call that needs it waits
(`PartitionLog.ensure_open`), and a role that the metadata assigns meanwhile is taken when it is done. The store makes
the truncation and the changed rows of producers durable in one transaction (`PartitionStore.truncate`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from odradek.gateway.env.completion import Completion
from odradek.gateway.replication.partition import PartitionLog, ReplicaState
from odradek.partitions.follower import FetchPosition, Follower, Restart
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
    """A log with its follower's operations."""

    @property
    def follower(self) -> Follower | None:
        """The follower role; None while the log is not open, or this broker leads."""
        role = self._role
        return role if self.state is ReplicaState.OPEN and isinstance(role, Follower) else None

    def is_held_back(self, *, in_sync: bool) -> bool:
        """True if the log must not be fetched now, because the throttle's rate is exceeded (KIP-73)."""
        if in_sync or not self._is_throttled:
            return False
        return self._resources.throttles.follower.is_exceeded(self._env.monotonic_ms())

    @property
    def _is_throttled(self) -> bool:
        return self.throttled_by(self._config.follower_replication_throttled_replicas)

    def follower_at(self, position: FetchPosition) -> Follower | None:
        """The follower role, if the log still ends at `position`, from which a fetch was sent."""
        role = self.follower
        return role if role is not None and role.position == position else None

    def take_fetched(self, position: FetchPosition, records: memoryview) -> Completion[None] | Rejected | None:
        """Append records fetched from `position`; None if the log no longer ends there.

        The completion settles when the whole log is durable; only then may the follower send the next fetch. Records of
        the leader may be refused with CORRUPT_MESSAGE or OFFSET_OUT_OF_RANGE. Raises PartitionUnavailable.
        """
        role = self.follower_at(position)
        if role is None:
            return None
        self._check_writable()
        result = role.append(records)
        if isinstance(result, Rejected):
            return result
        self._count_fetched(len(records))
        if result.write.batches:
            self._forget_refused(result.write.producers)
            self._submit(result.write, result.last_offset + 1)
        return self.durable(role.state.log_end_offset)

    def _count_fetched(self, size_bytes: int) -> None:
        self._resources.traffic.replicated_in_bytes += size_bytes
        if self._is_throttled:
            self._resources.throttles.follower.record(size_bytes, self._env.monotonic_ms())

    def _forget_refused(self, producer_ids: Iterable[int]) -> None:
        """The leader has accepted the batches of these producers that were refused here (`LeadingLog.note_refused`)."""
        if self._refused:
            for producer_id in producer_ids:
                self._refused.pop(producer_id, None)

    def leader_reports(self, leader_epoch: int, high_watermark: int, log_start_offset: int) -> None:
        """Adopt the leader's high watermark and log start; called when the records fetched with them are durable.

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
        """Truncate records that the leader does not have, by its response to a fetch from `position`.

        See `truncation.py`. Returns False and does nothing if the log no longer ends there. Raises
        PartitionUnavailable. Once begun it is awaited even when cancelled.
        """
        async with self._opening:
            role = self.follower_at(position)
            if role is None:
                return False
            offset = role.truncation(diverging).offset
            end_offset, high_watermark = role.state.log_end_offset, role.state.high_watermark
            await self._rewrite(partial(cut, offset=offset))
        level = logging.WARNING if offset < high_watermark else logging.INFO
        text = "truncated partition=%s from=%d to=%d high_watermark=%d leader_epoch=%d its_end=%d"
        log.log(level, text, self.key, end_offset, offset, high_watermark, *diverging)
        return True

    async def restart_at(self, position: FetchPosition, offset: int) -> bool:
        """Empty the log and restart it at `offset`: the leader has deleted records beyond this log's end.

        Returns False and does nothing if the log no longer ends at `position`. Raises PartitionUnavailable.
        """
        async with self._opening:
            if self.follower_at(position) is None:
                return False
            await self._rewrite(partial(restart_empty, offset=offset))
        log.warning("the leader has deleted further partition=%s from=%d to=%d", self.key, position.offset, offset)
        return True

    async def restart_with(self, position: FetchPosition, records: memoryview) -> bool:
        """Restart the log with refused records fetched from `position`, if the first batch contains the log's end.

        See `Follower.restart_with`. The records are durable on return. Returns False and does nothing in any other
        case, and if the log no longer ends at `position`. Raises PartitionUnavailable.
        """
        async with self._opening:
            role = self.follower_at(position)
            restart = None if role is None else role.restart_with(records)
            if restart is None:
                return False
            await self._rewrite(partial(restart_with, restart=restart))
        self._count_fetched(len(records))
        self._forget_refused(self.log.producers)
        text = "the log begins inside a batch of the leader partition=%s log_start_offset=%d base_offset=%d"
        log.info(text, self.key, position.offset, restart.base_offset)
        return True

    async def _rewrite(self, call: Callable[[PartitionStore], LogSnapshot]) -> None:
        """Run `call`, which changes the store's log, between commits, and rebuild the pure log from the result.

        If it fails, the next call that needs the log reopens it.
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
    """Truncate to `offset`, and restore the producers' rows from the batches that stay.

    Reads the batches below, from the latest point for which the store has the producers' rows; without rows, only if a
    producer has written in the part that is removed. Reads nothing if only epochs are truncated. Blocks. Raises
    StoreError, InvalidRecordBatch, ProducerRowError.
    """
    before = part.load()
    if offset >= before.log_end_offset or not (before.producers or _has_producers(part, offset, before.log_end_offset)):
        return part.truncate(offset)
    known = part.producers_before(offset)
    rebuild = ProducerRebuild(known.rows)
    for chunk in _chunks(part, known.end_offset, offset):
        rebuild.add(chunk)
    return part.truncate(offset, rebuild.rows())


def _has_producers(part: PartitionStore, offset: int, end_offset: int) -> bool:
    """True if a producer has written from `offset` on. It may have no row: an imported marker removes it."""
    return any(header.has_producer_id for chunk in _chunks(part, offset, end_offset) for header in iter_headers(chunk))


def _chunks(part: PartitionStore, offset: int, end_offset: int) -> Iterator[memoryview]:
    """The batches from `offset` to `end_offset`; each chunk is valid until the next one is requested."""
    while offset < end_offset:
        lease = part.read(offset, end_offset, REBUILD_READ_BYTES)
        try:
            if not lease.chunks:
                break
            for chunk in lease.chunks:
                yield chunk
                for header in iter_headers(chunk):
                    offset = header.next_offset
        finally:
            lease.release()


def restart_empty(part: PartitionStore, offset: int) -> LogSnapshot:
    """Empty the log, also of producers, and restart it at `offset`.

    A log that ends there is truncated first: otherwise it would keep the producers of the records that it drops. After
    a crash in between it is empty below the leader's log start, and restarts there again.
    """
    left = part.load()
    if left.log_end_offset == offset:
        part.truncate(left.log_start_offset)
    part.commit([LogWrite(log_start_offset=offset)], sync=True)
    return part.load()


def restart_with(part: PartitionStore, restart: Restart) -> LogSnapshot:
    """After a crash between the two steps the log is empty below the leader's log start, and restarts there again."""
    part.truncate(restart.base_offset)
    part.commit(restart.writes, sync=True)
    return part.load()
