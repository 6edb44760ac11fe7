"""The producer state of one log: the last batches of each producer, so that retries are recognised and zombies fenced.

Theory of operation (KIP-98, KIP-360, KIP-890; what Kafka 4 does)
-----------------------------------------------------------------
A producer id (pid) has at most one `ProducerEntry`: its epoch, its last five batches, and the first offset of its open
transaction in this log. A client's batch is checked in this order; the first line that applies decides.

    in the entry's epoch, same sequence range as one of its last five batches      duplicate of that batch
    epoch < entry's epoch                                                          INVALID_PRODUCER_EPOCH
    no entry (never seen, expired, or its data is gone)                            accepted, any sequence
    epoch > entry's epoch:  sequence 0                                             accepted, history restarts
                            else                                                   OUT_OF_ORDER_SEQUENCE_NUMBER
    epoch = entry's epoch:  sequence follows the last one (2^31-1 is followed by 0;
                            0 when no batch is known)                              accepted
                            else                                                   OUT_OF_ORDER_SEQUENCE_NUMBER
    accepted, not transactional, but a transaction is open                         INVALID_TXN_STATE

Of the broker's own batches (COORDINATOR) the sequences are not checked. A follower does not check what its leader
accepted.

A transaction's life in this log:

                 first transactional batch                     marker (commit | abort)
    (none) ------------------------------------> ongoing ---------------------------------> undecided for readers
       ^                                     first offset kept                              until the high watermark
       +---------------------------------------------------------------------------------------- passes the marker

A marker may raise the entry's producer epoch, and with transaction version 2 it must (KIP-890): only a retry of the
marker, after the transaction has ended, may repeat the epoch. The marker's coordinator epoch must not be below the last
one.

The last stable offset is the smallest first offset of all transactions that are ongoing or whose marker is not yet
below the high watermark. Since offsets only grow, `_ongoing` is in offset order by construction.

A transactional batch may open a transaction here only with a guard of the producer (`transaction_guard.py`), whether a
client or a coordinator wrote it. The producer's first transactional batch and every marker delete the guard, and a
batch whose guard is gone is refused with INVALID_TXN_STATE. Guards are not stored: a rebuilt log has none. They expire
as producers do.

While a transaction of an earlier epoch is open, no batch opens a new one: the earlier marker was lost, which requires
an unclean election, and both transactions would end with the same marker, so that the aborted one would be committed.
TRANSACTION_ABORTABLE makes the producer abort, and the marker of that abort ends both (KAFKA-20716; Kafka accepts the
batch). Within an epoch, as with transaction version 1, this cannot be detected.

A guard also keeps the order of batches that wait for their verification: the lowest sequence must be appended first.
Without an entry, where any sequence is accepted, producers of transaction version 2 must begin with 0.

Imported batches (`imports.py`) come from another cluster: this cluster may have assigned their producer ids to other
producers, and the original producers do not write here. Only their open transaction is kept, until its marker arrives.
The entry of a local producer with that id is kept, and no batch of it is taken for a retry of an imported one.

A follower cannot distinguish them and records both kinds, so that its entry is that of the last writer. There is one
exception: a batch of an earlier epoch that does not begin with sequence 0 is not from a client. A leader that has the
entry refuses it, and to a leader that has none, a producer begins with 0. Such a batch leaves the entry unchanged, as
on the leader. With sequence 0 it may be a local producer's first batch after imported ones of its id; it replaces the
entry, since the next leader refuses markers of an earlier epoch than the entry's. On a follower, such a marker only
ends the transaction.

An entry without an open transaction expires `producer.id.expiration.ms` after its last batch's timestamp.

Every change of an entry is written as a row (`ProducerEntry.encode`) together with the batch that caused it, so that
the rows alone rebuild this state. Invariant: once all writes are durable, state == Producers.restore(rows written so
far), except for producers in `await_first_batch_retry`.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from struct import Struct
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.partitions.config import NO_LIMIT
from odradek.partitions.model import AbortedTransaction
from odradek.partitions.results import UNKNOWN_OFFSET, AppendOrigin, Rejected
from odradek.partitions.transaction_guard import VerificationGuard
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, increment_sequence

BATCHES_KEPT: Final = 5
"""Kafka's limit on the batches kept per producer, and so on a client's requests in flight."""

NO_COORDINATOR_EPOCH: Final = -1

_MAX_SEQUENCE: Final = 2**31 - 1
_ROW_VERSION: Final = 1
# Version, producer epoch, coordinator epoch, last timestamp, first offset of the open transaction, number of batches.
_ROW: Final = Struct(">BhiqqB")
_ROW_BATCH: Final = Struct(">iqiq")
_ROWS: Final = tuple(Struct(_ROW.format + _ROW_BATCH.format[1:] * count) for count in range(BATCHES_KEPT + 1))


class ProducerRowError(ValueError):
    """A stored producer row cannot be decoded: it is damaged, or of a newer version."""


class ProducerBatch(NamedTuple):
    """One batch of a producer: enough to recognise its retry, and to repeat the first response."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        """The sequence of the batch's first record; sequences wrap from 2^31-1 to 0."""
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE


class ProducerEntry(NamedTuple):
    """The state of one producer id. `txn_first_offset` is -1 when no transaction is open."""

    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = -1
    txn_first_offset: int = UNKNOWN_OFFSET
    batches: tuple[ProducerBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 when no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last record, -1 when no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else UNKNOWN_OFFSET

    def encode(self) -> bytes:
        """Returns the row for the store."""
        epoch, coordinator_epoch, timestamp, first_offset, batches = self
        count, fields = len(batches), chain.from_iterable(batches)
        return _ROWS[count].pack(_ROW_VERSION, epoch, coordinator_epoch, timestamp, first_offset, count, *fields)

    @classmethod
    def decode(cls, row: bytes) -> "ProducerEntry":
        """Decode a row. Raises ProducerRowError."""
        if not row or row[0] != _ROW_VERSION:
            raise ProducerRowError(
                f"producer state row of version {row[0] if row else 'none'}, known is {_ROW_VERSION}"
            )
        if len(row) < _ROW.size or len(row) != _ROW.size + row[_ROW.size - 1] * _ROW_BATCH.size:
            raise ProducerRowError(f"producer state row of {len(row)} bytes has another length than it says")
        _, epoch, coordinator_epoch, timestamp, first_offset, _ = _ROW.unpack_from(row)
        batches = tuple(map(ProducerBatch._make, _ROW_BATCH.iter_unpack(row[_ROW.size :])))
        return cls(epoch, coordinator_epoch, timestamp, first_offset, batches)


class EndTxnMarker(NamedTuple):
    """The contents of a transaction marker. `transaction_version` 2 enables KIP-890's strict fencing."""

    coordinator_epoch: int
    is_abort: bool
    timestamp_ms: int
    transaction_version: int = 0


_ABSENT: Final = ProducerEntry()


class Producers:
    """The producer states of one log. `check_*` only check, `add_*` change the state; callers check before they add."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        self._unreplicated: list[tuple[int, int]] = []
        self._guards: dict[int, VerificationGuard] = {}

    @classmethod
    def restore(cls, rows: Mapping[int, bytes], undecided: Iterable[tuple[int, int]] = ()) -> "Producers":
        """Rebuild from stored rows. Raises ProducerRowError.

        `undecided` are the (first offset, marker's offset) of transactions that have ended above the high watermark.
        """
        producers = cls()
        producers._entries = {producer_id: ProducerEntry.decode(row) for producer_id, row in rows.items()}
        producers._ongoing = _open_transactions(producers._entries)
        producers._unreplicated = list(undecided)
        return producers

    def truncated(self, rows: Mapping[int, bytes], end_offset: int) -> "Producers":
        """Returns the states after a truncation to `end_offset` that leaves `rows`. Raises ProducerRowError.

        Transactions that ended below it stay undecided for readers until the high watermark passes their markers.
        """
        return Producers.restore(rows, [ended for ended in self._unreplicated if ended[1] < end_offset])

    def await_first_batch_retry(self, lost: Mapping[int, ProducerEntry]) -> None:
        """Of producers whose first batches were lost (a failed commit) or refused, accept only their retries.

        For an unknown producer any sequence is accepted. Without this, a later batch in flight would be accepted, and
        the lost ones, sent again, would be refused. Not stored: a crash also ends the connections with such batches.
        """
        for producer_id, entry in lost.items():
            began = not entry.batches or entry.batches[0].base_sequence == 0
            if producer_id not in self._entries and began:
                self._entries[producer_id] = entry._replace(txn_first_offset=UNKNOWN_OFFSET, batches=())

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """All known producer ids, for DescribeProducers; a live view."""
        return MappingProxyType(self._entries)

    def rows(self) -> dict[int, bytes]:
        """Returns all rows, as they are in a store that has every write."""
        return {producer_id: entry.encode() for producer_id, entry in self._entries.items()}

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """Returns the stored batch of which this one is a retry, None if there is none."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.base_sequence == header.base_sequence:
                return batch
        return None

    def check_batch(self, header: BatchHeader, origin: AppendOrigin) -> Rejected | None:
        """Check a data batch with a producer id; None if it may be added. A refused batch may still be a duplicate."""
        entry = self._entries.get(header.producer_id)
        guard = self._guards.get(header.producer_id)
        if guard is not None and origin is AppendOrigin.CLIENT and self._is_too_early(header, entry, guard):
            return _out_of_order(header, entry or _ABSENT)
        if entry is None:
            return None
        if header.producer_epoch < entry.producer_epoch:
            return _fenced(header.producer_id, header.producer_epoch, entry)
        if origin is AppendOrigin.CLIENT and not _in_sequence(header, entry):
            return _out_of_order(header, entry)
        if entry.txn_first_offset != UNKNOWN_OFFSET and not header.is_transactional:
            message = f"producer {header.producer_id} has an open transaction, but this batch is outside of it"
            return Rejected(ErrorCode.INVALID_TXN_STATE, message)
        return None

    def check_verified(self, producer_id: int, producer_epoch: int, guard: VerificationGuard | None) -> Rejected | None:
        """Check that a transactional batch belongs to a transaction that the coordinator has verified (KIP-890).

        TRANSACTION_ABORTABLE while one of an earlier epoch is open, whose marker was lost.
        """
        if self._is_open(producer_id, producer_epoch):
            return None
        if producer_id in self._ongoing and self._entries[producer_id].producer_epoch < producer_epoch:
            message = (
                f"producer {producer_id} has a transaction open of epoch {self._entries[producer_id].producer_epoch}"
            )
            return Rejected(ErrorCode.TRANSACTION_ABORTABLE, message)
        if guard is not None and self._guards.get(producer_id) is guard:
            return None
        return Rejected(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    @staticmethod
    def _is_too_early(header: BatchHeader, entry: ProducerEntry | None, guard: VerificationGuard) -> bool:
        fenced = entry is not None and header.producer_epoch < entry.producer_epoch
        return not fenced and guard.keeps_waiting(header, known=entry is not None)

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, adds_partition: bool
    ) -> VerificationGuard | Rejected | None:
        """Returns the guard for a verification; None when a transaction of this epoch is open, so that none is needed.

        Concurrent verifications share a guard. An out-of-date epoch gets none: its sequence would delay the batches of
        the producer that has the id now.
        """
        if refusal := self.check_epoch(producer_id, producer_epoch):
            return refusal
        if self._is_open(producer_id, producer_epoch):
            return None
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(
                producer_epoch, sequence, adds_partition=adds_partition
            )
        else:
            guard.ask_also(producer_epoch, sequence)
        return guard

    def is_overtaken(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if a marker or a batch has deleted the guard, or a later verification has created another."""
        return self._guards.get(producer_id) is not guard

    def end_verification(self, producer_id: int) -> None:
        """The coordinator has refused the verification: remove the guard."""
        self._guards.pop(producer_id, None)

    def _is_open(self, producer_id: int, producer_epoch: int) -> bool:
        return producer_id in self._ongoing and self._entries[producer_id].producer_epoch == producer_epoch

    def check_epoch(self, producer_id: int, producer_epoch: int) -> Rejected | None:
        """Check the epoch of a batch before it is built; INVALID_PRODUCER_EPOCH when it is too old."""
        entry = self._entries.get(producer_id, _ABSENT)
        return _fenced(producer_id, producer_epoch, entry) if producer_epoch < entry.producer_epoch else None

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker) -> Rejected | None:
        """Check a transaction marker; None when it may be added."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        strict = marker.transaction_version >= 2
        retry = header.producer_epoch == entry.producer_epoch and entry.txn_first_offset == UNKNOWN_OFFSET
        if header.producer_epoch < entry.producer_epoch + strict and not retry:
            return _fenced(header.producer_id, header.producer_epoch, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            message = (
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer {header.producer_id}, "
                f"which has seen epoch {entry.coordinator_epoch}"
            )
            return Rejected(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)
        return None

    def add_batch(self, header: BatchHeader, base_offset: int, max_timestamp_ms: int) -> bytes:
        """Add a data batch at its assigned offset; returns the producer's new row."""
        producer_id, delta = header.producer_id, header.last_offset_delta
        entry = self._entries.get(producer_id, _ABSENT)
        batch = ProducerBatch(header.last_sequence, base_offset + delta, delta, max_timestamp_ms)
        batches = (batch,)
        if entry.producer_epoch == header.producer_epoch:
            batches = (*entry.batches[1 - BATCHES_KEPT :], batch)
        first_offset = entry.txn_first_offset
        if first_offset == UNKNOWN_OFFSET and header.is_transactional:
            first_offset = self._ongoing[producer_id] = base_offset
            self._guards.pop(producer_id, None)
        entry = ProducerEntry(header.producer_epoch, entry.coordinator_epoch, max_timestamp_ms, first_offset, batches)
        self._entries[producer_id] = entry
        return entry.encode()

    def add_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker
    ) -> tuple[bytes, AbortedTransaction | None]:
        """Add a marker; returns the new row, and the transaction if the marker aborts one."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id, _ABSENT)
        kept = entry.batches if entry.producer_epoch == header.producer_epoch else ()
        ended = ProducerEntry(header.producer_epoch, marker.coordinator_epoch, marker.timestamp_ms, batches=kept)
        self._entries[producer_id] = ended
        return ended.encode(), self._end_transaction(producer_id, offset, marker)

    def _end_transaction(self, producer_id: int, offset: int, marker: EndTxnMarker) -> AbortedTransaction | None:
        self._guards.pop(producer_id, None)
        first_offset = self._ongoing.pop(producer_id, UNKNOWN_OFFSET)
        if first_offset == UNKNOWN_OFFSET:
            return None
        self._unreplicated.append((first_offset, offset))
        if not marker.is_abort:
            return None
        stable = next(iter(self._ongoing.values()), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def add_replicated(self, header: BatchHeader, base_offset: int) -> dict[int, bytes | None]:
        """Add a data batch that the leader has accepted; returns the changed row, if any."""
        entry = self._entries.get(header.producer_id, _ABSENT)
        if header.producer_epoch >= entry.producer_epoch or header.base_sequence == 0:
            return {header.producer_id: self.add_batch(header, base_offset, header.max_timestamp)}
        return self.add_imported(header, base_offset) if header.is_transactional else {}

    def end_replicated(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker
    ) -> tuple[dict[int, bytes | None], AbortedTransaction | None]:
        """Add a marker that the leader has accepted.

        Returns the changed row, if any, and the transaction if the marker aborts one.
        """
        if header.producer_epoch < self._entries.get(header.producer_id, _ABSENT).producer_epoch:
            return self.end_imported(header, offset, marker)
        row, aborted = self.add_marker(header, offset, marker)
        return {header.producer_id: row}, aborted

    def check_imported(self, header: BatchHeader) -> Rejected | None:
        """Check an imported transactional batch or marker: it must not join a transaction of a local producer."""
        entry = self._entries.get(header.producer_id, _ABSENT)
        if UNKNOWN_OFFSET < entry.txn_first_offset <= entry.last_offset:
            message = f"producer id {header.producer_id} has a transaction of this cluster open in the partition"
            return Rejected(ErrorCode.INVALID_TXN_STATE, message)
        return None

    def add_imported(self, header: BatchHeader, base_offset: int) -> dict[int, bytes | None]:
        """Add an imported transactional batch; returns the changed row, if any."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id) or ProducerEntry(header.producer_epoch)
        if entry.txn_first_offset != UNKNOWN_OFFSET:
            changed = _without_imported(entry)
        else:
            self._guards.pop(producer_id, None)
            self._ongoing[producer_id] = base_offset
            changed = entry._replace(txn_first_offset=base_offset)
        if changed == entry:
            return {}
        self._entries[producer_id] = changed
        return {producer_id: changed.encode()}

    def end_imported(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker
    ) -> tuple[dict[int, bytes | None], AbortedTransaction | None]:
        """Add an imported marker.

        Returns the changed row, if any, and the transaction if the marker aborts one.
        """
        producer_id = header.producer_id
        entry = self._entries.get(producer_id, _ABSENT)
        if entry.txn_first_offset == UNKNOWN_OFFSET:
            return {}, None
        aborted = self._end_transaction(producer_id, offset, marker)
        ended = _without_imported(entry)._replace(txn_first_offset=UNKNOWN_OFFSET)
        if ended == ProducerEntry(entry.producer_epoch):  # no local producer with this id is known
            del self._entries[producer_id]
            return {producer_id: None}, aborted
        self._entries[producer_id] = ended
        return {producer_id: ended.encode()}, aborted

    def on_high_watermark(self, high_watermark: int) -> None:
        """Remove completed transactions whose markers are now below the high watermark."""
        if self._unreplicated:
            self._unreplicated = [ended for ended in self._unreplicated if ended[1] >= high_watermark]

    def first_unstable_offset(self) -> int | None:
        """Returns the first offset whose transaction is undecided for readers, None when all are decided."""
        if not self._ongoing and not self._unreplicated:
            return None
        first = next(iter(self._ongoing.values()), NO_LIMIT)
        return min((first_offset for first_offset, _ in self._unreplicated if first_offset < first), default=first)

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Remove producers without writes for `expiration_ms` and without an open transaction; returns their ids.

        Guards of refused batches that were not sent again expire, too. They are not stored: their ids are not returned.
        """
        for producer_id in [key for key, guard in self._guards.items() if guard.is_expired(now_ms, expiration_ms)]:
            del self._guards[producer_id]
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.txn_first_offset == UNKNOWN_OFFSET and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return expired


def _open_transactions(entries: Mapping[int, ProducerEntry]) -> dict[int, int]:
    """Returns the first offset of each open transaction by producer id, in the order of the offsets."""
    opened = [(entry.txn_first_offset, producer_id) for producer_id, entry in entries.items()]
    return {producer_id: offset for offset, producer_id in sorted(opened) if offset != UNKNOWN_OFFSET}


def _in_sequence(header: BatchHeader, entry: ProducerEntry) -> bool:
    if header.producer_epoch != entry.producer_epoch:
        return header.base_sequence == 0
    last = entry.last_sequence
    # Without a known batch the last sequence is -1; 0 follows that, too.
    return header.base_sequence == (0 if last == NO_SEQUENCE else increment_sequence(last, 1))


def _without_imported(entry: ProducerEntry) -> ProducerEntry:
    """Returns the entry without the batches of its open transaction, an imported one, which a follower has recorded."""
    kept = tuple(batch for batch in entry.batches if batch.last_offset < entry.txn_first_offset)
    return entry._replace(batches=kept)


def _fenced(producer_id: int, producer_epoch: int, entry: ProducerEntry) -> Rejected:
    message = f"producer {producer_id} has epoch {entry.producer_epoch}, but wrote with {producer_epoch}"
    return Rejected(ErrorCode.INVALID_PRODUCER_EPOCH, message)


def _out_of_order(header: BatchHeader, entry: ProducerEntry) -> Rejected:
    message = (
        f"producer {header.producer_id} sent sequence {header.base_sequence} in epoch {header.producer_epoch}, "
        f"but the last one was {entry.last_sequence} in epoch {entry.producer_epoch}"
    )
    return Rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
