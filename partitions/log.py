"""The log of one partition as a state machine: decides, and says what has to be stored.

Theory of operation
-------------------
Offsets are assigned when a batch is appended; the log end then lies ahead of what is durable:

    log start          last stable      high watermark                log end
        |-------------------|----------------|---------------------------|
             read_committed      + read_uncommitted    appended, not yet durable

`append`, `become_leader`, `move_log_start` and `expire_producers` change the state at once and return a `LogWrite`.
The caller commits the writes in the order in which they were returned, then calls `committed(end_offset)`, which alone
moves the high watermark: nothing is readable, and nothing may be acknowledged, before. When a commit fails, the state
has run ahead of the store: discard the log and `restore` it from what the store has (the same as after a crash).

With a single replica the high watermark is the durable end. With several it will be the smallest durable end of the
in-sync replicas; everything here but `committed` is ready for that.

Invariants: log start <= last stable offset <= high watermark <= durable end <= log end; none of them but the log end
(by discarding) ever moves back.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from odradek.partitions.config import LogConfig, MessageTimestampType
from odradek.partitions.epochs import EpochHistory
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite, StoredBatch
from odradek.partitions.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from odradek.partitions.producers import ProducerEntry, Producers, VerificationGuard
from odradek.partitions.results import (
    NO_LEADER_EPOCH,
    OFFSET_NOT_FOUND,
    UNKNOWN_OFFSET,
    Appended,
    AppendOrigin,
    Duplicate,
    EpochEnd,
    FetchPlan,
    Isolation,
    NeedsScan,
    OffsetFound,
    Rejected,
)
from odradek.partitions.validation import (
    LATEST_PRODUCE_VERSION,
    check_client_batch,
    check_trusted_batch,
    read_replicated_batches,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import NO_SEQUENCE, BatchHeader, batch_bytes, stamp_batch

__all__ = [
    "AppendOrigin",
    "Appended",
    "Duplicate",
    "EpochEnd",
    "FetchPlan",
    "Isolation",
    "NeedsScan",
    "OffsetFound",
    "PartitionLog",
    "Rejected",
]

_NO_PRODUCERS: Final[Mapping[int, bytes | None]] = MappingProxyType({})


class PartitionLog:
    """One partition's log. Not safe for concurrent use: one task decides, in order."""

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._log_start_offset = 0
        self._log_end_offset = 0
        self._durable_end_offset = 0
        self._high_watermark = 0
        self._leader_epoch = NO_LEADER_EPOCH
        self._leader_epoch_start = 0
        self._leads = True
        self._epochs = EpochHistory()
        self._producers = Producers()
        self._aborted: list[AbortedTransaction] = []
        self._clean_offset = 0
        self._stamps_append_time = self._verifies = False
        self.configure(config)

    @classmethod
    def restore(cls, snapshot: LogSnapshot, config: LogConfig) -> "PartitionLog":
        """Take up a log where its store has it; all of that is durable.

        No producer expires here, however old its timestamps: a retry of a batch whose acknowledgement was lost with the
        broker must find the batch, also when a backfill wrote it with yesterday's times.

        Raises ProducerRowError when a producer's row cannot be read.
        """
        log = cls(config)
        log._log_start_offset = snapshot.log_start_offset
        end = max(snapshot.log_end_offset, snapshot.log_start_offset)
        log._log_end_offset = log._durable_end_offset = log._high_watermark = end
        log._epochs = EpochHistory(snapshot.epochs)
        log._epochs.truncate_start(snapshot.log_start_offset)
        log._leader_epoch = log._epochs.latest
        log._producers = Producers.restore(snapshot.producers)
        log._aborted = sorted(
            (aborted for aborted in snapshot.aborted if aborted.last_offset >= snapshot.log_start_offset),
            key=_last_offset,
        )
        log._clean_offset = snapshot.clean_offset
        return log

    def expect_again(self, lost: Mapping[int, ProducerEntry]) -> None:
        """Take nothing of a producer whose first batches were lost or refused, until it sends them again.

        `lost` are the states that producers had in a log whose commit failed, or would have had.
        """
        self._producers.expect_again(lost)

    def configure(self, config: LogConfig) -> None:
        """Judge by other settings from the next append on."""
        self._config = config
        self._stamps_append_time = config.message_timestamp_type is MessageTimestampType.LOG_APPEND_TIME
        self._verifies = config.transaction_verification

    @property
    def config(self) -> LogConfig:
        """The settings in force."""
        return self._config

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets; what lies below need not be durable yet."""
        return self._log_end_offset

    @property
    def durable_end_offset(self) -> int:
        """The offset after the last record that the store has made durable."""
        return self._durable_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that every reader may see. Never moves back."""
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which (exclusive) all transactions are decided: read_committed's limit (KIP-98)."""
        unstable = self._producers.first_unstable_offset()
        if unstable is None or unstable >= self._high_watermark:
            return self._high_watermark
        return max(unstable, self._log_start_offset)

    @property
    def leader_epoch(self) -> int:
        """The partition's epoch as last told, or as restored; -1 before the first."""
        return self._leader_epoch

    @property
    def clean_offset(self) -> int:
        """Compaction has been everywhere below."""
        return self._clean_offset

    @property
    def aborted(self) -> Sequence[AbortedTransaction]:
        """The aborted transactions that readers are told of, by last offset."""
        return tuple(self._aborted)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producer states by producer id, for DescribeProducers; a live view."""
        return self._producers.entries

    def snapshot(self) -> LogSnapshot:
        """What a store holds that has made every write durable: `restore` of it gives an equal log.

        The largest timestamp is the store's to know, and -1 here.
        """
        return LogSnapshot(
            log_start_offset=self._log_start_offset,
            log_end_offset=self._log_end_offset,
            epochs=self._epochs.entries,
            producers=self._producers.rows(),
            aborted=tuple(self._aborted),
            clean_offset=self._clean_offset,
        )

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        """Whether a transaction of the producer is open here."""
        return self._producers.has_ongoing_transaction(producer_id)

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, enrolls: bool = False
    ) -> VerificationGuard | None:
        """The guard under which to ask the transaction coordinator before a transactional append (KIP-890).

        `sequence` is that of the batch, or none; with `enrolls` asking lets the partition take part. None when nothing
        need be asked: a transaction of this epoch is open, or `transaction_verification` is off and nothing enrolls.
        """
        if not (self._verifies or enrolls):
            return None
        return self._producers.verification(producer_id, producer_epoch, sequence, enrolls=enrolls)

    def end_verification(self, producer_id: int) -> None:
        """The coordinator has said that the partition is not in the producer's transaction."""
        self._producers.end_verification(producer_id)

    def is_overtaken(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Whether the guard is void, since a marker or a batch of the producer has come after it was given."""
        return self._producers.is_overtaken(producer_id, guard)

    def check_transactional(
        self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None
    ) -> Rejected | None:
        """Judge a coordinator's transactional batch before it is decided; the epoch first (KAFKA-19690)."""
        refusal = self._producers.check_epoch(producer_id, producer_epoch)
        if refusal is None and (self._verifies or guard is not None):
            refusal = self._producers.check_verified(producer_id, producer_epoch, guard)
        return refusal

    def become_leader(self, epoch: int) -> LogWrite | None:
        """Lead from here on in `epoch`; the write must be durable before any fetch is served in it (KIP-101).

        None when nothing is new. An epoch below the one known is our own bug.
        """
        assert epoch >= self._leader_epoch, f"epoch {epoch} after {self._leader_epoch}"
        self._leader_epoch = epoch
        self._leads = True
        started = self._epochs.assign(epoch, self._log_end_offset)
        self._leader_epoch_start = self._epochs.latest_start
        return None if started is None else LogWrite(epochs=(started,))

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
    ) -> Appended | Duplicate | Rejected:
        """Judge `records` and give them the next offsets.

        A writable buffer is patched in place and must stay as it is until the write is durable; a read-only one is
        copied. A refused or duplicate batch is not touched. `api_version` is that of the Produce request;
        `transaction_version` that of a WriteTxnMarkers request (KIP-1228). `guard` is what `verification` gave before
        the coordinator was asked. `judged` is what `check_client_batch` said of the same records a moment ago.
        """
        if origin is AppendOrigin.REPLICATION:
            return self._append_replicated(records)
        assert self._leads, "only a leader appends"
        if origin is AppendOrigin.CLIENT:
            header = judged or check_client_batch(records, self._config, now_ms, api_version)
        else:
            header = check_trusted_batch(records, self._config)
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
        refusal = self._producers.check_batch(header, origin)
        verifies = self._verifies or guard is not None
        if refusal is None and verifies and header.is_transactional and origin is AppendOrigin.CLIENT:
            # A coordinator has asked `check_transactional` before it decided.
            refusal = self._producers.check_verified(header.producer_id, header.producer_epoch, guard)
        if refusal is not None:
            # A retry is out of sequence by nature, so only what was refused can be one.
            earlier = self._producers.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
            if earlier is not None:
                return Duplicate(earlier.base_offset, earlier.last_offset, earlier.timestamp_ms)
            return refusal
        timestamp_ms = now_ms if self._stamps_append_time else header.max_timestamp
        row = self._producers.add_batch(header, self._log_end_offset, timestamp_ms)
        return self._place(records, header, now_ms, producers={header.producer_id: row})

    def _append_marker(
        self, records: memoryview, header: BatchHeader, now_ms: int, transaction_version: int
    ) -> Appended | Rejected:
        marker = read_end_txn_marker(records, header, transaction_version)
        if marker is None:
            return self._place(records, header, now_ms)
        refusal = self._producers.check_marker(header, marker)
        if refusal is not None:
            return refusal
        row, aborted = self._producers.add_marker(header, self._log_end_offset, marker)
        return self._place(records, header, now_ms, producers={header.producer_id: row}, aborted=self._note(aborted))

    def _note(self, aborted: AbortedTransaction | None) -> tuple[AbortedTransaction, ...]:
        if aborted is None:
            return ()
        self._aborted.append(aborted)
        return (aborted,)

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
        base_offset = self._log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamped_ms = now_ms if self._stamps_append_time else None
        parts = stamp_batch(
            records, header, base_offset=base_offset, leader_epoch=self._leader_epoch, log_append_time_ms=stamped_ms
        )
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        max_timestamp_ms = header.max_timestamp if stamped_ms is None else stamped_ms
        self._log_end_offset = last_offset + 1
        batch = StoredBatch(base_offset, last_offset, max_timestamp_ms, data)
        write = LogWrite((batch,), (), producers, aborted)
        return Appended(base_offset, last_offset, -1 if stamped_ms is None else stamped_ms, write)

    def _append_replicated(self, records: memoryview) -> Appended | Rejected:
        """Take the leader's batches with their offsets and epochs, all or none; what they say was judged there."""
        batches = read_replicated_batches(records, self._log_end_offset, self._leader_epoch)
        if isinstance(batches, Rejected):
            return batches
        self._leads = False
        first_offset = batches[0][0].base_offset if batches else self._log_end_offset
        stored: list[StoredBatch] = []
        producers: dict[int, bytes | None] = {}
        epochs: list[EpochStart] = []
        aborted: list[AbortedTransaction] = []
        for header, marker in batches:
            base_offset, last_offset = header.base_offset, header.last_offset
            self._log_end_offset = last_offset + 1
            stored.append(StoredBatch(base_offset, last_offset, header.max_timestamp, batch_bytes(records, header)))
            started = self._epochs.assign(header.partition_leader_epoch, base_offset)
            epochs.extend(() if started is None else (started,))
            if marker is not None:
                producers[header.producer_id], ended = self._producers.add_marker(header, base_offset, marker)
                aborted.extend(self._note(ended))
            elif header.producer_id >= 0 and not header.is_control:
                producers[header.producer_id] = self._producers.add_batch(header, base_offset, header.max_timestamp)
        write = LogWrite(stored, epochs, producers, aborted, replicated=True)
        return Appended(first_offset, self._log_end_offset - 1, -1, write)

    def become_follower(self, epoch: int) -> None:
        """Follow another broker from here on in `epoch`: only replicated batches are taken."""
        assert epoch >= self._leader_epoch, f"epoch {epoch} after {self._leader_epoch}"
        self._leader_epoch = epoch
        self._leads = False

    def committed(self, end_offset: int) -> bool:
        """The store has made everything below `end_offset` durable. Returns whether the high watermark moved."""
        assert end_offset <= self._log_end_offset, f"{end_offset} was never assigned"
        self._durable_end_offset = max(self._durable_end_offset, end_offset)
        if self._durable_end_offset <= self._high_watermark:
            return False
        self._high_watermark = self._durable_end_offset
        self._producers.on_high_watermark(self._high_watermark)
        return True

    def fetch(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: Isolation,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
    ) -> FetchPlan | Rejected:
        """Plan a read from `offset`; the plan is empty when the log has no more yet.

        OFFSET_OUT_OF_RANGE below the log start and above the log end; FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH
        (KIP-320). `last_fetched_epoch` finds a reader whose log has diverged.
        """
        refusal = self._check_epoch(current_leader_epoch)
        if refusal is not None:
            return refusal
        if not self._log_start_offset <= offset <= self._log_end_offset:
            return self._out_of_range(offset)
        high_watermark, stable, start = self._high_watermark, self.last_stable_offset, self._log_start_offset
        if last_fetched_epoch != NO_LEADER_EPOCH:
            diverging = self._divergence(offset, last_fetched_epoch)
            if isinstance(diverging, Rejected):
                return diverging
            if diverging is not None:
                return FetchPlan(offset, offset, max_bytes, high_watermark, stable, start, None, diverging)
        if isolation is Isolation.READ_COMMITTED:
            aborted = self.aborted_in(offset, stable)
            return FetchPlan(offset, stable, max_bytes, high_watermark, stable, start, aborted)
        end = high_watermark if isolation is Isolation.READ_UNCOMMITTED else self._durable_end_offset
        return FetchPlan(offset, end, max_bytes, high_watermark, stable, start)

    def _divergence(self, offset: int, last_fetched_epoch: int) -> EpochEnd | Rejected | None:
        end = self._epochs.end_of(last_fetched_epoch, self._durable_end_offset)
        if end.end_offset == UNKNOWN_OFFSET:
            message = f"the end of epoch {last_fetched_epoch}, last fetched from, is not known"
            return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        return end if end.leader_epoch < last_fetched_epoch or end.end_offset < offset else None

    def _out_of_range(self, offset: int) -> Rejected:
        message = f"offset {offset} is not within {self._log_start_offset} to {self._log_end_offset}"
        return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)

    def aborted_in(self, fetch_offset: int, upper_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that touch [fetch_offset, upper_offset), by their markers' offsets."""
        found: list[AbortedTransaction] = []
        for aborted in self._aborted[bisect_left(self._aborted, fetch_offset, key=_last_offset) :]:
            if aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                break
        return tuple(found)

    def list_offset(
        self, timestamp_ms: int, isolation: Isolation, current_leader_epoch: int = NO_LEADER_EPOCH
    ) -> OffsetFound | NeedsScan | Rejected:
        """Answer ListOffsets, or say what to look up in the store; special timestamps are in `partitions.offsets`."""
        refusal = self._check_epoch(current_leader_epoch)
        if refusal is not None:
            return refusal
        if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return OffsetFound(self._log_start_offset, -1, self._epochs.epoch_of(self._log_start_offset))
        if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OFFSET_NOT_FOUND
        unsettled = self._check_settled(isolation)
        limit_offset = self._readable_end(isolation)
        if timestamp_ms == LATEST_TIMESTAMP:
            return unsettled or OffsetFound(limit_offset, -1, self._leader_epoch)
        newest = timestamp_ms == MAX_TIMESTAMP
        return NeedsScan(timestamp_ms, newest, self._log_start_offset, limit_offset, unsettled)

    def _readable_end(self, isolation: Isolation) -> int:
        if isolation is Isolation.READ_COMMITTED:
            return self.last_stable_offset
        return self._high_watermark if isolation is Isolation.READ_UNCOMMITTED else self._durable_end_offset

    def _check_settled(self, isolation: Isolation) -> Rejected | None:
        """A new leader's high watermark may lag behind what its predecessor told clients (KIP-207)."""
        if isolation is Isolation.LOG_END or self._high_watermark >= self._leader_epoch_start:
            return None
        message = f"high watermark {self._high_watermark} is below the epoch's start {self._leader_epoch_start}"
        return Rejected(ErrorCode.OFFSET_NOT_AVAILABLE, message)

    def epoch_end(self, leader_epoch: int, current_leader_epoch: int = NO_LEADER_EPOCH) -> EpochEnd | Rejected:
        """Answer OffsetForLeaderEpoch: the largest known epoch <= `leader_epoch` and the offset after its last record.

        The newest epoch ends at what is durable, for no reply may rest on more.
        """
        refusal = self._check_epoch(current_leader_epoch)
        return refusal or self._epochs.end_of(leader_epoch, self._durable_end_offset)

    def _check_epoch(self, current_leader_epoch: int) -> Rejected | None:
        if current_leader_epoch == self._leader_epoch or current_leader_epoch < 0:  # any below 0 asks for no check
            return None
        older = current_leader_epoch < self._leader_epoch
        error = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return Rejected(error, f"the request is for epoch {current_leader_epoch}, this is epoch {self._leader_epoch}")

    def move_log_start(self, offset: int) -> LogWrite | Rejected:
        """Drop everything below `offset` (DeleteRecords, retention); -1 stands for the high watermark.

        The write is empty when the log starts there or later already. OFFSET_OUT_OF_RANGE above the high watermark.
        """
        offset = self._high_watermark if offset == UNKNOWN_OFFSET else offset
        if not 0 <= offset <= self._high_watermark:
            return self._out_of_range(offset)
        if offset <= self._log_start_offset:
            return LogWrite()
        self._log_start_offset = offset
        self._epochs.truncate_start(offset)
        del self._aborted[: bisect_left(self._aborted, offset, key=_last_offset)]
        return LogWrite(log_start_offset=offset)

    def compacted(self, clean_offset: int) -> LogWrite:
        """Compaction has been everywhere below `clean_offset`."""
        self._clean_offset = clean_offset
        return LogWrite(clean_offset=clean_offset)

    def keep_aborted(self, base_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """Of the aborted transactions that end in the range tell only of `kept`; the store does so as it compacts.

        To be called before the markers of the others go: told of one whose marker is gone, a consumer would take the
        producer's next transaction for aborted, too.
        """
        others = [each for each in self._aborted if not base_offset <= each.last_offset < end_offset]
        self._aborted = sorted([*others, *kept], key=_last_offset)

    def expire_producers(self, now_ms: int) -> LogWrite | None:
        """Forget producers idle for `producer.id.expiration.ms`; None when there are none."""
        expired = self._producers.expire(now_ms, self._config.producer_id_expiration_ms)
        return LogWrite(producers=dict.fromkeys(expired)) if expired else None


def _last_offset(aborted: AbortedTransaction) -> int:
    return aborted.last_offset
