"""Fetch, ListOffsets and OffsetForLeaderEpoch on a replica, as plans of what to read from the store.

Clients and other brokers read from the leader. A follower serves only consumers that may read from it (KIP-392), below
its own high watermark. The order of the checks is Kafka's: first the request's epoch, then whether this replica leads.
"""

from typing import ClassVar, Final

from odradek.partitions.model import AbortedTransaction
from odradek.partitions.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from odradek.partitions.results import (
    NO_LEADER_EPOCH,
    OFFSET_NOT_FOUND,
    UNKNOWN_OFFSET,
    EpochEnd,
    FetchPlan,
    Isolation,
    NeedsScan,
    OffsetFound,
    Rejected,
)
from odradek.partitions.state import PartitionState
from odradek.wire.errors import ErrorCode

NOT_LEADER = Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition")
"""The refusal of a request that only a leader may serve."""

# Enum member lookup costs as much as a call.
_READ_COMMITTED: Final = Isolation.READ_COMMITTED
_READ_UNCOMMITTED: Final = Isolation.READ_UNCOMMITTED


class Reads:
    """The reading side of a role: `leads` is True for the leader; `epoch_start_offset` is where its epoch begins."""

    leads: ClassVar[bool]

    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self.epoch_start_offset = 0

    def _check(self, current_leader_epoch: int, *, leader_only: bool) -> Rejected | None:
        refusal = self.state.check_epoch(current_leader_epoch)
        if refusal is None and leader_only and not self.leads:
            return NOT_LEADER
        return refusal

    def fetch(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: Isolation,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
        leader_only: bool = True,
    ) -> FetchPlan | Rejected:
        """Plan a read from `offset`; the plan is empty if the offset is the end of what may be read.

        OFFSET_OUT_OF_RANGE below the log start and above the log end; FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH
        (KIP-320); NOT_LEADER_OR_FOLLOWER on a follower if `leader_only`. `last_fetched_epoch` detects a reader whose
        log has diverged.
        """
        refusal = self._check(current_leader_epoch, leader_only=leader_only)
        if refusal is not None:
            return refusal
        state = self.state
        start = state.log_start_offset
        if offset < start:
            return state.out_of_range(offset)
        high_watermark, stable = state.high_watermark, state.last_stable_offset
        if last_fetched_epoch != NO_LEADER_EPOCH:
            diverging = self._divergence(offset, last_fetched_epoch)
            if isinstance(diverging, Rejected):
                return diverging
            if diverging is not None:
                return FetchPlan(offset, offset, max_bytes, high_watermark, stable, start, None, diverging)
        if offset > state.log_end_offset:  # checked last: a diverged reader may be beyond the log end
            return state.out_of_range(offset)
        if isolation is _READ_COMMITTED:
            aborts = state.has_aborted_in(offset, stable)
            return FetchPlan(offset, stable, max_bytes, high_watermark, stable, start, aborts)
        end = high_watermark if isolation is _READ_UNCOMMITTED else state.durable_end_offset
        return FetchPlan(offset, end, max_bytes, high_watermark, stable, start)

    def _divergence(self, offset: int, last_fetched_epoch: int) -> EpochEnd | Rejected | None:
        end = self.state.epochs.end_of(last_fetched_epoch, self.state.durable_end_offset)
        if end.end_offset == UNKNOWN_OFFSET:
            message = f"the end of epoch {last_fetched_epoch}, last fetched from, is not known"
            return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        return end if end.leader_epoch < last_fetched_epoch or end.end_offset < offset else None

    def aborted_in(self, fetch_offset: int, upper_offset: int) -> tuple[AbortedTransaction, ...]:
        """Returns the aborted transactions that overlap [fetch_offset, upper_offset), for the range that was read."""
        return self.state.aborted_in(fetch_offset, upper_offset)

    def list_offset(
        self, timestamp_ms: int, isolation: Isolation, current_leader_epoch: int = NO_LEADER_EPOCH
    ) -> OffsetFound | NeedsScan | Rejected:
        """Returns the response, or what to look up in the store; special timestamps are in `partitions.offsets`."""
        refusal = self._check(current_leader_epoch, leader_only=True)
        if refusal is not None:
            return refusal
        state = self.state
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return OffsetFound(state.log_start_offset, -1, state.epochs.epoch_of(state.log_start_offset))
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OFFSET_NOT_FOUND
        unsettled = self._check_settled(isolation)
        limit_offset = self._readable_end(isolation)
        if timestamp_ms == LATEST_TIMESTAMP:
            return unsettled or OffsetFound(limit_offset, -1, state.leader_epoch)
        newest = timestamp_ms == MAX_TIMESTAMP
        return NeedsScan(timestamp_ms, newest, state.log_start_offset, limit_offset, unsettled)

    def _readable_end(self, isolation: Isolation) -> int:
        state = self.state
        if isolation is Isolation.READ_COMMITTED:
            return state.last_stable_offset
        return state.high_watermark if isolation is Isolation.READ_UNCOMMITTED else state.durable_end_offset

    def _check_settled(self, isolation: Isolation) -> Rejected | None:
        """A new leader's high watermark may be behind what its predecessor reported to clients (KIP-207)."""
        high_watermark = self.state.high_watermark
        if isolation is Isolation.LOG_END or high_watermark >= self.epoch_start_offset:
            return None
        message = f"high watermark {high_watermark} is below the epoch's start {self.epoch_start_offset}"
        return Rejected(ErrorCode.OFFSET_NOT_AVAILABLE, message)

    def epoch_end(self, leader_epoch: int, current_leader_epoch: int = NO_LEADER_EPOCH) -> EpochEnd | Rejected:
        """Serve OffsetForLeaderEpoch: the largest known epoch <= `leader_epoch` and the offset after its last record.

        The newest epoch ends at the durable end, since no response may depend on more.
        """
        refusal = self._check(current_leader_epoch, leader_only=True)
        return refusal or self.state.epochs.end_of(leader_epoch, self.state.durable_end_offset)
