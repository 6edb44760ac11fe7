"""Transactions during a cleaning pass: which records are aborted, and which markers may be removed.

Batches are processed in offset order. A marker may be removed only when a pass finds no batch of its transaction before
it. Until then both the marker and the entry of an aborted transaction in Fetch responses must be kept (KIP-98).
"""

from collections.abc import Iterable

from odradek.partitions.model import AbortedTransaction
from odradek.wire.records.batch import BatchHeader
from odradek.wire.records.crc import BytesLike
from odradek.wire.records.reader import ControlType, read_control_marker


class CleanedTransactions:
    """The transactions of one pass. `reported` collects the aborted transactions that Fetch must still report."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.reported: list[AbortedTransaction] = []

    def add_batch(self, header: BatchHeader) -> bool:
        """Process a batch of records; returns True if it must be removed since its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def add_control_batch(self, buf: BytesLike, header: BatchHeader) -> bool:
        """Process a control batch; returns True if it may be removed. Raises CorruptBatch."""
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        kind = read_control_marker(buf, header).type
        if kind is ControlType.ABORT:
            return self._end_aborted(header.producer_id)
        if kind is ControlType.COMMIT:
            was_seen = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_seen
        return False

    def _end_aborted(self, producer_id: int) -> bool:
        ended = self._aborted.pop(producer_id, None)
        if ended is None or producer_id not in self._seen:
            return True
        self._seen.discard(producer_id)
        self.reported.append(ended)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            begun = self._coming.pop()
            self._aborted.setdefault(begun.producer_id, begun)
