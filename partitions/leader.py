"""The partition's leader: judges what clients and coordinators write, and says what is committed.

A record is committed when every in-sync replica has it durably, this one included: the high watermark is the smallest
of their log ends. That is decided in `_advance` and nowhere else. With this replica alone in the ISR the smallest log
end is its own durable end.

The leader's epoch begins at its log end. Until the high watermark has reached it, a predecessor may have reported a
higher one to clients than is known here, and ListOffsets answers OFFSET_NOT_AVAILABLE (KIP-207).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from odradek.partitions.imports import ImportedBatch, take_imported
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, LogWrite, StoredBatch
from odradek.partitions.reads import Reads
from odradek.partitions.results import NO_LEADER_EPOCH, Appended, AppendOrigin, Duplicate, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.transaction_guard import VerificationGuard
from odradek.partitions.validation import LATEST_PRODUCE_VERSION, check_client_batch, check_trusted_batch
from odradek.wire.records.batch import NO_SEQUENCE, BatchHeader, stamp_batch

_NO_PRODUCERS: Final[Mapping[int, bytes | None]] = MappingProxyType({})
_UNKNOWN_END: Final = 0
"""Of a follower that has not fetched in this epoch nothing is known, and so nothing more is committed."""


class Leader(Reads):
    """The leading role over a state. Made by `lead`."""

    leads = True

    def __init__(self, state: PartitionState, followers: Iterable[int]) -> None:
        super().__init__(state)
        self.epoch_start_offset = state.log_end_offset
        self._follower_ends = dict.fromkeys(followers, _UNKNOWN_END)
        self._advance()

    def durable(self, end_offset: int) -> bool:
        """The store has made everything below `end_offset` durable. Returns whether the high watermark moved."""
        self.state.mark_durable(end_offset)
        return self._advance()

    def follower_has(self, broker_id: int, end_offset: int) -> bool:
        """An in-sync follower has everything below `end_offset`. Returns whether the high watermark moved."""
        if broker_id not in self._follower_ends:
            return False
        self._follower_ends[broker_id] = end_offset
        return self._advance()

    def _advance(self) -> bool:
        ends = self._follower_ends
        own_end = self.state.durable_end_offset
        return self.state.raise_high_watermark(min(own_end, *ends.values()) if ends else own_end)

    def append(
        self,
        records: memoryview,
        *,
        origin: AppendOrigin,
        now_ms: int,
        api_version: int = LATEST_PRODUCE_VERSION,
        transaction_version: int = 0,
        guard: VerificationGuard | None = None,
        judged: BatchHeader | Rejected | None = None,
        leader_epoch: int = NO_LEADER_EPOCH,
    ) -> Appended | Duplicate | Rejected:
        """Judge `records` and give them the next offsets.

        A writable buffer is patched in place and must stay as it is until the write is durable; a read-only one is
        copied. A refused or duplicate batch is not touched. `api_version` is that of the Produce request;
        `transaction_version` that of a WriteTxnMarkers request (KIP-1228). `guard` is what `verification` gave before
        the coordinator was asked. `judged` is what `check_client_batch` said of the same records a moment ago.
        `leader_epoch`, if any, is the epoch in which the writer was elected: see `PartitionState.check_epoch`.
        """
        state = self.state
        if leader_epoch != NO_LEADER_EPOCH:
            fenced = state.check_epoch(leader_epoch)
            if fenced is not None:
                return fenced
        if origin is AppendOrigin.CLIENT:
            header = judged or check_client_batch(records, state.config, now_ms, api_version)
        else:
            header = check_trusted_batch(records, state.config)
        if isinstance(header, Rejected):
            return header
        if header.producer_id < 0:
            return self._place(records, header, now_ms)
        if header.is_control:
            return self._append_marker(records, header, now_ms, transaction_version)
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
            # A coordinator has asked `check_transactional` before it decided.
            refusal = producers.check_verified(header.producer_id, header.producer_epoch, guard)
        if refusal is not None:
            # A retry is out of sequence by nature, so only what was refused can be one.
            earlier = producers.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
            if earlier is not None:
                return Duplicate(earlier.base_offset, earlier.last_offset, earlier.timestamp_ms)
            return refusal
        timestamp_ms = now_ms if state.stamps_append_time else header.max_timestamp
        row = producers.add_batch(header, state.log_end_offset, timestamp_ms)
        return self._place(records, header, now_ms, producers={header.producer_id: row})

    def _append_marker(
        self, records: memoryview, header: BatchHeader, now_ms: int, transaction_version: int
    ) -> Appended | Rejected:
        marker = read_end_txn_marker(records, header, transaction_version)
        if marker is None:
            return self._place(records, header, now_ms)
        state = self.state
        refusal = state.producer_states.check_marker(header, marker)
        if refusal is not None:
            return refusal
        row, ended = state.producer_states.add_marker(header, state.log_end_offset, marker)
        aborted = state.note_aborted(ended)
        return self._place(records, header, now_ms, producers={header.producer_id: row}, aborted=aborted)

    def _place(
        self,
        records: memoryview,
        header: BatchHeader,
        now_ms: int,
        *,
        producers: Mapping[int, bytes | None] = _NO_PRODUCERS,
        aborted: tuple[AbortedTransaction, ...] = (),
    ) -> Appended:
        """Give the batch the next offsets and the leader's epoch, and the topic's clock where the topic has one."""
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
        """Take `batches` of `records` at the offsets that they have, all or none; see `imports.py`."""
        return take_imported(self.state, records, batches)

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of the producer is open here."""
        return self.state.producer_states.has_ongoing_transaction(producer_id)

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, adds_partition: bool = False
    ) -> VerificationGuard | Rejected | None:
        """The guard for a verification by the transaction coordinator before a transactional append (KIP-890).

        `sequence` is that of the batch, or none; with `adds_partition` the coordinator adds the partition instead of
        verifying it. None when no verification is needed: a transaction of this epoch is open, or
        `transaction_verification` is off and no partition is added. INVALID_PRODUCER_EPOCH, and no guard, when the
        epoch has passed.
        """
        if not (self.state.verifies or adds_partition):
            return None
        return self.state.producer_states.verification(
            producer_id, producer_epoch, sequence, adds_partition=adds_partition
        )

    def end_verification(self, producer_id: int) -> None:
        """The coordinator has said that the partition is not in the producer's transaction."""
        self.state.producer_states.end_verification(producer_id)

    def is_overtaken(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Whether the guard is void, since a marker or a batch of the producer has come after it was given."""
        return self.state.producer_states.is_overtaken(producer_id, guard)

    def check_transactional(
        self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None
    ) -> Rejected | None:
        """Judge a coordinator's transactional batch before it is decided; the epoch first (KAFKA-19690)."""
        producers = self.state.producer_states
        refusal = producers.check_epoch(producer_id, producer_epoch)
        if refusal is None and (self.state.verifies or guard is not None):
            refusal = producers.check_verified(producer_id, producer_epoch, guard)
        return refusal


def lead(state: PartitionState, epoch: int, followers: Iterable[int] = ()) -> tuple[Leader, LogWrite | None]:
    """Lead in `epoch`; `followers` are the other in-sync replicas.

    The write, None when nothing is new, must be durable before a fetch of a follower is served (KIP-101). An epoch
    below the one known is our own bug.
    """
    started = state.begin_epoch(epoch)
    return Leader(state, followers), None if started is None else LogWrite(epochs=(started,))
