"""The metadata log's replica: the role comes from the quorum, and so does the high watermark."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from odradek.coordinator.quorum.values import NO_NODE, EpochEnd, SnapshotId
from odradek.gateway.env.completion import Completion
from odradek.gateway.quorum.snapshots import Snapshots
from odradek.gateway.replication.assignment import Assignment, no_broker
from odradek.gateway.replication.following import cut
from odradek.gateway.replication.replica import LogResources, Replica, ReplicaState
from odradek.partitions.config import LogConfig
from odradek.partitions.follower import Follower, follow
from odradek.partitions.in_sync import ALONE, InSyncReplicas
from odradek.partitions.leader import Leader
from odradek.partitions.model import LogSnapshot, LogWrite, PartitionKey
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import PartitionStore, StoreError
from odradek.wire.records.builder import leader_change_marker

log = logging.getLogger(__name__)


class QuorumLeader(Leader):
    """The leading role: the quorum says what is committed."""

    committed_end = 0

    def _advance(self) -> bool:
        return self.state.raise_high_watermark(self.committed_end)

    def commit_to(self, offset: int) -> bool:
        """The quorum has committed everything below `offset`. Returns whether the high watermark moved."""
        self.committed_end = max(self.committed_end, offset)
        return self._advance()


class MetadataReplica(Replica):
    """The log of the quorum. `on_durable` is called when more is durable or the log was opened; `on_failed` when a
    write has failed. `unsnapshotted_bytes` is about how much the log has got since the newest snapshot.
    """

    def __init__(self, key: PartitionKey, config: LogConfig, node_id: int, resources: LogResources) -> None:
        super().__init__(key, config, Assignment(0, NO_NODE, leads=False), resources)
        self.on_durable: Callable[[], None] = _nothing
        self.on_failed: Callable[[], None] = _nothing
        self._node_id = node_id
        self._voters: Sequence[int] = (node_id,)
        self._granting: Sequence[int] = ()
        self._is_announced = True
        self.snapshots = Snapshots(resources.store, resources.env)
        self.unsnapshotted_bytes = 0

    # What the machine sees (`coordinator.quorum.values.QuorumLog`)

    @property
    def state_or_last(self) -> PartitionState:
        """The log's state; of a log that has failed the last one. The log was opened once."""
        assert self._log is not None
        return self._log

    @property
    def end_offset(self) -> int:
        """See `QuorumLog`."""
        return self.state_or_last.log_end_offset

    @property
    def durable_end_offset(self) -> int:
        """See `QuorumLog`."""
        return self.state_or_last.durable_end_offset

    @property
    def last_epoch(self) -> int:
        """See `QuorumLog`."""
        latest, base = self.state_or_last.epochs.latest, self.base
        return latest if base is None else max(latest, base.epoch)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """See `QuorumLog`."""
        state, base = self.state_or_last, self.base
        if base is not None and state.epochs.latest < base.epoch <= epoch:
            return EpochEnd(base.epoch, state.log_end_offset)  # nothing stands behind the base
        return EpochEnd(*state.epochs.end_of(epoch, state.log_end_offset))

    @property
    def base(self) -> SnapshotId | None:
        """See `QuorumLog`."""
        start_offset = self.state_or_last.log_start_offset
        return self.snapshots.at(start_offset) if start_offset else None

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """See `QuorumLog`."""
        return self.snapshots.newest

    # Roles

    def lead(self, epoch: int, voters: Sequence[int], granting: Sequence[int]) -> None:
        """Lead in `epoch`; `announce` comes before any other record."""
        self._voters, self._granting = voters, granting
        self._take(Assignment(epoch, self._node_id, leads=True))

    def follow(self, epoch: int, leader_id: int) -> None:
        """Follow, or wait for a leader. What waits for a commit fails with NOT_LEADER_OR_FOLLOWER."""
        self._take(Assignment(epoch, leader_id, leads=False))
        self._committed_waits.fail(self._not_leader())

    def _take(self, assigned: Assignment) -> None:
        self._assigned = assigned
        if self.state is ReplicaState.OPEN:
            assert self._log is not None
            self._role, self._epoch_write = self._role_over(self._log)
        self.notify()

    def _role_over(self, state: PartitionState) -> tuple[Leader | Follower, LogWrite | None]:
        epoch = max(self._assigned.leader_epoch, state.leader_epoch, 0)
        if not self._assigned.leads:
            return follow(state, epoch, self._assigned.leader_id), None
        self._is_announced = state.epochs.latest >= epoch
        started = state.begin_epoch(epoch)
        leader = QuorumLeader(state, InSyncReplicas(ALONE, epoch, state.log_end_offset, no_broker))
        return leader, None if started is None else LogWrite(epochs=(started,))

    def announce(self) -> None:
        """Append the LeaderChange record, unless the epoch has it. Raises PartitionUnavailable."""
        if self._is_announced:
            return
        marker = leader_change_marker(
            leader_id=self._node_id,
            voters=self._voters,
            granting_voters=self._granting,
            timestamp_ms=self._env.wall_ms(),
        )
        result = self.append(memoryview(marker), AppendOrigin.COORDINATOR)
        assert not isinstance(result, Rejected), f"our own batch was refused: {result}"
        self._is_announced = True

    # What the quorum decides

    def commit_to(self, offset: int) -> None:
        """Everything below `offset` is committed; whatever of it is durable here may be read."""
        role = self._role
        if self.state is not ReplicaState.OPEN or role is None:
            return
        moved = role.commit_to(offset) if isinstance(role, QuorumLeader) else _follow_to(role, offset)
        self._committed(moved=moved)

    def take(self, records: memoryview) -> None:
        """Append what was fetched from the leader at the log's end. Raises PartitionUnavailable."""
        role = self.follower
        if role is None:
            return
        self._check_writable()
        result = role.append(records)
        if isinstance(result, Rejected):
            log.warning("the leader of the metadata sent what cannot be appended cause=%s", result.message)
        elif result.write.batches:
            self._submit(result.write, result.last_offset + 1)

    async def cut(self, offset: int) -> None:
        """Drop everything from `offset` on, durably. Raises PartitionUnavailable."""
        await self.ensure_open()
        async with self._opening:
            before = self.log.log_end_offset
            await self._rewrite(partial(cut, offset=offset))
        log.info("truncated partition=%s from=%d to=%d", self.key, before, offset)

    async def begin_anew_behind(self, snapshot: SnapshotId) -> None:
        """Drop everything, and go on behind a snapshot, which is durable. Raises PartitionUnavailable."""
        await self.ensure_open()
        async with self._opening:
            before = self.log.log_end_offset
            await self._rewrite(partial(_begin_anew, offset=snapshot.end_offset))
        self.unsnapshotted_bytes = 0
        log.info("begun anew partition=%s from=%d behind=%d-%d", self.key, before, *snapshot)

    async def find_base(self) -> bool:
        """Look for the snapshot that the log begins behind, if the store's properties do not name it.

        False where there is none: what was trimmed is lost. Raises StoreError.
        """
        if not self.log.log_start_offset or self.base is not None:
            return True
        await self.snapshots.find()
        return self.base is not None

    async def estimate(self) -> None:
        """See how much the log has got since the newest snapshot, after it was opened. Raises StoreError."""
        newest = self.newest_snapshot
        after = newest.end_offset if newest is not None else 0
        for segment in await self.borrow(lambda part: part.segments()):
            length = max(segment.end_offset - segment.base_offset, 1)
            beyond = max(segment.end_offset - max(segment.base_offset, after), 0)
            self.unsnapshotted_bytes += segment.size_bytes * beyond // length

    # What happens to the log

    def _submit(self, write: LogWrite, end_offset: int) -> Completion[None]:
        for batch in write.batches:
            self.unsnapshotted_bytes += len(batch.data)
        return super()._submit(write, end_offset)

    def _durable(self, end_offset: int) -> None:
        super()._durable(end_offset)
        self.on_durable()

    def _lead(self, restored: PartitionState) -> None:
        super()._lead(restored)
        self.on_durable()

    def _failed(self, error: StoreError) -> None:
        super()._failed(error)
        self.on_failed()


def _follow_to(role: Leader | Follower, offset: int) -> bool:
    assert isinstance(role, Follower)
    return role.leader_commits(offset)


def _begin_anew(part: PartitionStore, offset: int) -> LogSnapshot:
    """A crash in between leaves an empty log; the next start begins it anew again."""
    if part.load().log_end_offset >= offset:
        part.truncate(0)
    part.commit([LogWrite(log_start_offset=offset)], sync=True)
    return part.load()


def _nothing() -> None:
    pass
