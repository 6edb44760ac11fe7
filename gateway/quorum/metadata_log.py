"""The metadata log's replica, whose role and high watermark come from the quorum."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from odradek.coordinator.quorum.values import NO_NODE, EpochEnd, SnapshotId
from odradek.coordinator.quorum.voters import NOT_IN_LOG, VoterHistory, VotersAt, VoterSet
from odradek.gateway.env.completion import Completion
from odradek.gateway.quorum.snapshots import READ_BYTES, Snapshots
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
from odradek.wire.records.batch import NO_LEADER_EPOCH, iter_headers
from odradek.wire.records.builder import control_batch, leader_change_marker
from odradek.wire.records.errors import InvalidRecordBatch

log = logging.getLogger(__name__)


class QuorumLeader(Leader):
    """The leader role, in which the quorum determines the high watermark."""

    committed_end = 0  # a class attribute, since `Leader.__init__` already calls `_advance`

    def _advance(self) -> bool:
        return self.state.raise_high_watermark(self.committed_end)

    def commit_to(self, offset: int) -> bool:
        """Note that the quorum has committed all records below `offset`; returns True if the high watermark moved."""
        self.committed_end = max(self.committed_end, offset)
        return self._advance()


class MetadataReplica(Replica):
    """The replica of the metadata log.

    `on_durable` is called when more is durable or the log was opened; `on_failed` when a write has failed.
    `unsnapshotted_bytes` is an estimate of the log's growth since the newest snapshot.
    """

    def __init__(self, key: PartitionKey, config: LogConfig, node_id: int, resources: LogResources) -> None:
        super().__init__(key, config, Assignment(0, NO_NODE, leads=False), resources)
        self.on_durable: Callable[[], None] = _nothing
        self.on_failed: Callable[[], None] = _nothing
        self._node_id = node_id
        self._voters: Sequence[int] = (node_id,)
        self._granting: Sequence[int] = ()
        self._is_announced = True
        self._sets = VoterHistory()
        self.snapshots = Snapshots(resources.store, resources.env)
        self.unsnapshotted_bytes = 0

    # The log as the state machine uses it (`coordinator.quorum.values.QuorumLog`)

    @property
    def state_or_last(self) -> PartitionState:
        """The log's state, or that before its failure if the log has failed. It must have been opened once."""
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
            return EpochEnd(base.epoch, state.log_end_offset)  # the log has no records after the base
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

    @property
    def voters(self) -> VotersAt | None:
        """See `QuorumLog`."""
        return self._sets.latest

    def voters_before(self, end_offset: int) -> VoterSet | None:
        """The voters that the log contains below `end_offset`."""
        return self._sets.before(end_offset)

    # Roles

    def lead(self, epoch: int, voters: Sequence[int], granting: Sequence[int]) -> None:
        """Lead in `epoch`. `announce` must be called before any other record is appended."""
        self._voters, self._granting = voters, granting
        self._take(Assignment(epoch, self._node_id, leads=True))

    def follow(self, epoch: int, leader_id: int) -> None:
        """Follow, or wait for a leader. Waits for a commit fail with NOT_LEADER_OR_FOLLOWER."""
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

    # Voters

    def found(self, voters: VoterSet) -> None:
        """Set the first voters of a log that contains none; the first leader writes them."""
        self._sets.begin(VotersAt(NOT_IN_LOG, voters))

    def append_voters(self, voters: VoterSet) -> int:
        """Append the record of a voter set, which is in force at once; returns its offset.

        Raises PartitionUnavailable.
        """
        from odradek.coordinator.quorum.voter_records import version_record, voters_record

        is_first = self.voters is None or self.voters.offset == NOT_IN_LOG
        records = [*([version_record()] if is_first else []), voters_record(voters)]
        batch = control_batch(records, timestamp_ms=self._env.wall_ms(), leader_epoch=NO_LEADER_EPOCH)
        result = self.append(memoryview(batch), AppendOrigin.COORDINATOR)
        assert not isinstance(result, Rejected), f"our own batch was refused: {result}"
        self._sets.append(VotersAt(result.last_offset, voters))
        log.info("voters offset=%d ids=%s", result.last_offset, ",".join(map(str, voters.directories)))
        return result.last_offset

    async def load_voters(self) -> None:
        """Load the voters from the newest snapshot and the log after it.

        Raises PartitionUnavailable, StoreError, InvalidRecordBatch and ProtocolError.
        """
        from odradek.coordinator.quorum.voter_records import voters_of

        newest = self.newest_snapshot
        self._sets.begin(None if newest is None else await self._voters_in(newest))
        offset = self.log.log_start_offset if newest is None else max(self.log.log_start_offset, newest.end_offset)
        end = self.log.log_end_offset
        while offset < end:
            lease = await self.read(offset, end, READ_BYTES)
            try:
                if not lease.chunks:
                    break
                for chunk in lease.chunks:
                    for at in voters_of(chunk):
                        self._sets.append(at)
                    for header in iter_headers(chunk):
                        offset = header.next_offset
            finally:
                self.give_back(lease)

    async def _voters_in(self, snapshot: SnapshotId) -> VotersAt | None:
        """The voters that `snapshot` contains, if any. Raises StoreError."""
        voters = await self.snapshots.voters(snapshot)
        return None if voters is None else VotersAt(snapshot.end_offset - 1, voters)

    # Effects of the quorum's decisions

    def commit_to(self, offset: int) -> None:
        """Note that all records below `offset` are committed; those that are durable here may be read."""
        role = self._role
        if self.state is not ReplicaState.OPEN or role is None:
            return
        moved = role.commit_to(offset) if isinstance(role, QuorumLeader) else _follow_to(role, offset)
        self._committed(moved=moved)

    def take(self, records: memoryview) -> None:
        """Append records fetched from the leader to the end of the log.

        Raises PartitionUnavailable, ProtocolError, and InvalidRecordBatch also for records that do not fit there.
        """
        if self.state is not ReplicaState.OPEN:
            self._refuse()
        role = self.follower
        if role is None:
            return
        from odradek.coordinator.quorum.voter_records import voters_of

        sets = list(voters_of(records))
        self._check_writable()
        result = role.append(records)
        if isinstance(result, Rejected):
            raise InvalidRecordBatch(result.message)
        if result.write.batches:
            for at in sets:
                self._sets.append(at)
                log.info("voters offset=%d ids=%s", at.offset, ",".join(map(str, at.voters.directories)))
            self._submit(result.write, result.last_offset + 1)

    async def cut(self, offset: int) -> None:
        """Truncate the log to `offset`, durably. Raises PartitionUnavailable."""
        await self.ensure_open()
        async with self._opening:
            before = self.log.log_end_offset
            await self._rewrite(partial(cut, offset=offset))
            self._sets.cut(offset)
        log.info("truncated partition=%s from=%d to=%d", self.key, before, offset)

    async def restart_after(self, snapshot: SnapshotId) -> None:
        """Delete all records, and restart the log after a snapshot, which is durable.

        Raises PartitionUnavailable, and before anything was deleted StoreError if the snapshot cannot be read.
        """
        await self.ensure_open()
        voters = await self._voters_in(snapshot)
        async with self._opening:
            before = self.log.log_end_offset
            await self._rewrite(partial(_restart, offset=snapshot.end_offset))
            self._sets.begin(voters)
        self.unsnapshotted_bytes = 0
        log.info(
            "log restarted after a snapshot partition=%s old_end_offset=%d snapshot=%d-%d", self.key, before, *snapshot
        )

    async def find_base(self) -> bool:
        """Find the snapshot that the log starts after, if the store's properties do not list it.

        False if there is none: the trimmed records are lost. Raises StoreError and ProtocolError.
        """
        if not self.log.log_start_offset or self.base is not None:
            return True
        await self.snapshots.find()
        return self.base is not None

    async def estimate(self) -> None:
        """Estimate the log's growth since the newest snapshot, after the log was opened. Raises StoreError."""
        newest = self.newest_snapshot
        after = newest.end_offset if newest is not None else 0
        for segment in await self.borrow(lambda part: part.segments()):
            length = max(segment.end_offset - segment.base_offset, 1)
            beyond = max(segment.end_offset - max(segment.base_offset, after), 0)
            self.unsnapshotted_bytes += segment.size_bytes * beyond // length

    # Hooks of `Replica`

    def _submit(self, write: LogWrite, end_offset: int) -> Completion[None]:
        for batch in write.batches:
            self.unsnapshotted_bytes += len(batch.data)
        return super()._submit(write, end_offset)

    def _durable(self, end_offset: int) -> None:
        super()._durable(end_offset)
        self.on_durable()

    def _lead(self, restored: PartitionState) -> None:
        self._sets.cut(restored.log_end_offset)  # a log that was reopened may have lost records that were not durable
        super()._lead(restored)
        self.on_durable()

    def _failed(self, error: StoreError) -> None:
        super()._failed(error)
        self.on_failed()


def _follow_to(role: Leader | Follower, offset: int) -> bool:
    assert isinstance(role, Follower)
    return role.leader_commits(offset)


def _restart(part: PartitionStore, offset: int) -> LogSnapshot:
    """Empty the log and set its start offset.

    A crash in between leaves an empty log, which the next start restarts again.
    """
    if part.load().log_end_offset >= offset:
        part.truncate(0)
    part.commit([LogWrite(log_start_offset=offset)], sync=True)
    return part.load()


def _nothing() -> None:
    pass
