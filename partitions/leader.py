"""The partition's leader: validates the writes of clients and coordinators, and determines what is committed.

A record is committed when all in-sync replicas, including this one, have it durably: the high watermark is the smallest
of their log end offsets (`in_sync.py`). Only `_advance` moves it. If this is the only replica, the high watermark is
its own durable end.

Followers fetch what is durable at the leader, and a fetch from an offset acknowledges that everything below is durable
at the follower. A follower whose log has diverged gets the diverging epoch, and its fetch is not recorded
(KAFKA-13141).

The leader's epoch begins at its log end. Until the high watermark has reached that offset, a previous leader may have
reported a higher one to clients, so ListOffsets returns OFFSET_NOT_AVAILABLE (KIP-207).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.partitions.imports import ImportedBatch, take_imported
from odradek.partitions.in_sync import ALONE, Brokers, InSyncReplicas, IsrDecision, IsrProposal, Membership
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, LogWrite, StoredBatch
from odradek.partitions.producers import EndTxnMarker
from odradek.partitions.reads import Reads
from odradek.partitions.results import (
    NO_LEADER_EPOCH,
    Appended,
    AppendOrigin,
    Duplicate,
    FetchPlan,
    Isolation,
    Rejected,
)
from odradek.partitions.state import PartitionState
from odradek.partitions.transaction_guard import VerificationGuard
from odradek.partitions.validation import LATEST_PRODUCE_VERSION, check_client_batch, check_trusted_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import NO_SEQUENCE, BatchHeader, stamp_batch

_NO_PRODUCERS: Final[Mapping[int, bytes | None]] = MappingProxyType({})
NOT_ENOUGH_REPLICAS: Final = Rejected(ErrorCode.NOT_ENOUGH_REPLICAS)
"""Fewer replicas are in sync than `min.insync.replicas`."""


class FollowerFetch(NamedTuple):
    """The follower that fetches: its broker, the epoch of the broker's registration, and its log start offset."""

    broker_id: int
    broker_epoch: int
    log_start_offset: int


def _knows_no_broker(_broker_id: int) -> None:
    return None


class Leader(Reads):
    """The leader role over a state. Created by `lead`."""

    leads = True

    def __init__(self, state: PartitionState, in_sync: InSyncReplicas) -> None:
        super().__init__(state)
        # a log that was reopened (`over`) may end below the offset at which the epoch began
        self.epoch_start_offset = min(in_sync.epoch_start_offset, state.log_end_offset)
        self.in_sync = in_sync
        self._advance()

    def over(self, restored: PartitionState) -> tuple["Leader", LogWrite | None]:
        """Continue in the same epoch over a log that was reopened, and may have lost what was not durable.

        The returned write is as that of `lead`.
        """
        started = restored.begin_epoch(self.state.leader_epoch)
        self.in_sync.reopened(restored.log_end_offset)
        return Leader(restored, self.in_sync), None if started is None else LogWrite(epochs=(started,))

    def durable(self, end_offset: int) -> bool:
        """The store has made everything below `end_offset` durable. Returns True if the high watermark moved."""
        self.state.mark_durable(end_offset)
        return self._advance()

    def _advance(self) -> bool:
        state = self.state
        end_offset = state.durable_end_offset
        if self.in_sync.remotes:
            end_offset = self.in_sync.committed_end(end_offset, state.config)
        return state.raise_high_watermark(end_offset)

    def assign(self, membership: Membership) -> bool:
        """Apply replicas and ISR from metadata of the same epoch. Returns True if the high watermark moved."""
        self.in_sync.assign(membership)
        return self._advance()

    def advance_at(self, now_ms: int) -> bool:
        """Recompute after changes of time, settings or brokers. Returns True if the high watermark moved."""
        self.in_sync.now_ms = now_ms
        return self._advance()

    def plan_follower_fetch(
        self,
        follower: FollowerFetch,
        offset: int,
        *,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
    ) -> FetchPlan | Rejected:
        """Plan a follower's read, as `fetch` does, up to what is durable here.

        UNKNOWN_LEADER_EPOCH (NOT_LEADER_OR_FOLLOWER if the request has no epoch) for a broker that has no replica;
        NOT_LEADER_OR_FOLLOWER for one that has registered again since.
        """
        plan = self.fetch(
            offset,
            max_bytes=max_bytes,
            isolation=Isolation.LOG_END,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        if isinstance(plan, Rejected):
            return plan
        if follower.broker_id not in self.in_sync.remotes:
            is_epoch_known = current_leader_epoch != NO_LEADER_EPOCH
            error = ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER
            return Rejected(error, f"broker {follower.broker_id} has no replica of the partition")
        if self.in_sync.is_stale(follower.broker_id, follower.broker_epoch):
            message = f"broker {follower.broker_id} has registered anew since epoch {follower.broker_epoch}"
            return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        return plan

    def record_fetch(self, follower: FollowerFetch, plan: FetchPlan, now_ms: int) -> tuple[bool, IsrProposal | None]:
        """Record the follower's progress from a planned read.

        Returns whether the high watermark moved, and the proposal to send if the follower should join the ISR. Nothing
        is recorded for a follower whose log has diverged.
        """
        if plan.diverging is not None:
            return False, None
        in_sync, broker_id = self.in_sync, follower.broker_id
        in_sync.now_ms = now_ms
        in_sync.remotes[broker_id].fetched(
            plan.start, follower.log_start_offset, follower.broker_epoch, self.state.durable_end_offset, now_ms
        )
        proposal = in_sync.expansion(broker_id, self.state.high_watermark)
        return self._advance(), proposal

    def shrinking(self, now_ms: int) -> IsrProposal | None:
        """Returns the proposal that followers that have lagged for too long leave the ISR, None if there are none."""
        self.in_sync.now_ms = now_ms
        return self.in_sync.shrinking(self.state.durable_end_offset, self.state.config.replica_lag_time_max_ms)

    def answered(self, proposal: IsrProposal, answer: IsrDecision | ErrorCode) -> tuple[bool, bool]:
        """Process the controller's response to a proposal.

        Returns whether the high watermark moved, and whether the proposal must be sent again.
        """
        again = self.in_sync.answered(proposal, answer)
        return self._advance(), again

    @property
    def low_watermark(self) -> int:
        """The offset below which all replicas on active brokers have deleted their records; -1 while it is unknown."""
        return self.in_sync.low_watermark(self.state.log_start_offset)

    @property
    def is_short(self) -> bool:
        """True if acks=all must be refused because fewer than `min.insync.replicas` replicas are in sync."""
        return bool(self.in_sync.remotes) and self.in_sync.is_short(self.state.config)

    def append(
        self,
        records: memoryview,
        *,
        origin: AppendOrigin,
        now_ms: int,
        api_version: int = LATEST_PRODUCE_VERSION,
        marker: EndTxnMarker | None = None,
        guard: VerificationGuard | None = None,
        checked: BatchHeader | Rejected | None = None,
        leader_epoch: int = NO_LEADER_EPOCH,
        all_in_sync: bool = False,
    ) -> Appended | Duplicate | Rejected:
        """Validate `records` and assign the next offsets to them.

        With `all_in_sync` (acks=all) NOT_ENOUGH_REPLICAS is checked before the records; see `is_short`.

        A writable buffer is patched in place and must not change until the write is durable; a read-only one is copied.
        A refused or duplicate batch is not modified. `api_version` is that of the Produce request. `guard` was returned
        by `verification` before the coordinator was queried. `checked` is the result of `check_client_batch` for the
        same records, and `marker` the contents of a transaction marker's batch, if the caller has them; the latter has
        the version of its transaction (KIP-1228). `leader_epoch`, if any, is the epoch in which the writer was elected:
        see `PartitionState.check_epoch`.
        """
        state = self.state
        if leader_epoch != NO_LEADER_EPOCH:
            fenced = state.check_epoch(leader_epoch)
            if fenced is not None:
                return fenced
        if all_in_sync and self.is_short:
            return NOT_ENOUGH_REPLICAS
        if origin is AppendOrigin.CLIENT:
            header = checked or check_client_batch(records, state.config, now_ms, api_version)
        else:
            header = check_trusted_batch(records, state.config)
        if isinstance(header, Rejected):
            return header
        if header.producer_id < 0:
            return self._appended(records, header, now_ms)
        if header.is_control:
            return self._append_marker(records, header, now_ms, marker or read_end_txn_marker(records, header))
        return self._append_of_producer(records, header, origin, now_ms, guard)

    def _append_of_producer(
        self,
        records: memoryview,
        header: BatchHeader,
        origin: AppendOrigin,
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> Appended | Duplicate | Rejected:
        state = self.state
        producers = state.producer_states
        refusal = producers.check_batch(header, origin)
        verifies = state.verifies or guard is not None
        if refusal is None and verifies and header.is_transactional and origin is AppendOrigin.CLIENT:
            # Only for clients: a coordinator has called `check_transactional` before its decision.
            refusal = producers.check_verified(header.producer_id, header.producer_epoch, guard)
        if refusal is not None:
            # A retry is always out of sequence, so only a refused batch can be a duplicate.
            earlier = producers.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
            if earlier is not None:
                return Duplicate(earlier.base_offset, earlier.last_offset, earlier.timestamp_ms)
            return refusal
        timestamp_ms = now_ms if state.stamps_append_time else header.max_timestamp
        row = producers.add_batch(header, state.log_end_offset, timestamp_ms)
        return self._appended(records, header, now_ms, producers={header.producer_id: row})

    def _append_marker(
        self, records: memoryview, header: BatchHeader, now_ms: int, marker: EndTxnMarker | None
    ) -> Appended | Rejected:
        if marker is None:
            return self._appended(records, header, now_ms)
        state = self.state
        refusal = state.producer_states.check_marker(header, marker)
        if refusal is not None:
            return refusal
        row, ended = state.producer_states.add_marker(header, state.log_end_offset, marker)
        aborted = state.note_aborted(ended)
        return self._appended(records, header, now_ms, producers={header.producer_id: row}, aborted=aborted)

    def _appended(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        *,
        producers: Mapping[int, bytes | None] = _NO_PRODUCERS,
        aborted: tuple[AbortedTransaction, ...] = (),
    ) -> Appended:
        """Assign the next offsets and the leader's epoch, and the append time for LogAppendTime topics."""
        state = self.state
        base_offset = state.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamped_ms = now_ms if state.stamps_append_time else None
        parts = stamp_batch(
            records, header, base_offset=base_offset, leader_epoch=state.leader_epoch, log_append_time_ms=stamped_ms
        )
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        max_timestamp_ms = header.max_timestamp if stamped_ms is None else stamped_ms
        state.log_end_offset = last_offset + 1
        batch = StoredBatch(base_offset, last_offset, max_timestamp_ms, data)
        write = LogWrite((batch,), (), producers, aborted)
        return Appended(base_offset, last_offset, -1 if stamped_ms is None else stamped_ms, write)

    def take_imported(self, records: memoryview, batches: Sequence[ImportedBatch]) -> Appended | Rejected:
        """Append `batches` of `records` at their own offsets, all or none; see `imports.py`."""
        return take_imported(self.state, records, batches)

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, adds_partition: bool = False
    ) -> VerificationGuard | Rejected | None:
        """Returns the guard for a verification by the transaction coordinator before a transactional append (KIP-890).

        `sequence` is that of the batch, or none; with `adds_partition` the coordinator adds the partition instead of
        verifying it. None when no verification is needed: a transaction of this epoch is open, or
        `transaction_verification` is off and no partition is added. INVALID_PRODUCER_EPOCH when the epoch is out of
        date.
        """
        if not (self.state.verifies or adds_partition):
            return None
        return self.state.producer_states.verification(
            producer_id, producer_epoch, sequence, adds_partition=adds_partition
        )

    def end_verification(self, producer_id: int) -> None:
        """Remove the producer's guard: the coordinator answered that the partition is not in the transaction."""
        self.state.producer_states.end_verification(producer_id)

    def is_overtaken(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if a marker or a batch of the producer has invalidated the guard since."""
        return self.state.producer_states.is_overtaken(producer_id, guard)

    def check_transactional(
        self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None
    ) -> Rejected | None:
        """Check a coordinator's transactional write before the decision is made; the epoch first (KAFKA-19690)."""
        producers = self.state.producer_states
        refusal = producers.check_epoch(producer_id, producer_epoch)
        if refusal is None and (self.state.verifies or guard is not None):
            refusal = producers.check_verified(producer_id, producer_epoch, guard)
        return refusal


def lead(
    state: PartitionState,
    epoch: int,
    membership: Membership = ALONE,
    brokers: Brokers = _knows_no_broker,
    now_ms: int = 0,
) -> tuple[Leader, LogWrite | None]:
    """Lead in `epoch`, which must not be below the known epoch (asserted); `now_ms` is of the monotonic clock.

    The returned write, None when the history has the epoch already, must be stored with the epoch's first batch at the
    latest. Until then nothing depends on it, since an epoch without batches has no entry in any log.
    """
    started = state.begin_epoch(epoch)
    in_sync = InSyncReplicas(membership, epoch, state.log_end_offset, brokers)
    in_sync.begin(membership, now_ms)
    return Leader(state, in_sync), None if started is None else LogWrite(epochs=(started,))
