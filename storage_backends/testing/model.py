"""A simple model of a log, with which backends are compared: one list of batches, no segments."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.partitions.model import AbortedTransaction, LogSnapshot, LogWrite, StoredBatch
from odradek.storage_backends.interface import NO_ROWS
from odradek.storage_backends.planning import visible_aborted, visible_epochs


@dataclass(slots=True)
class LogModel:
    """The behaviour that the interface specifies, computed from the whole list. `rows_at` has the producers' rows at
    each earlier log end.
    """

    batches: list[StoredBatch] = field(default_factory=list[StoredBatch])
    log_start_offset: int = 0
    log_end_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    producers: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])
    clean_offset: int = 0
    rows_at: dict[int, list[Mapping[int, bytes]]] = field(default_factory=dict[int, list[Mapping[int, bytes]]])

    def commit(self, write: LogWrite) -> None:
        """Apply one write."""
        if write.log_start_offset is not None and write.log_start_offset > self.log_end_offset and not write.batches:
            self.restart(write.log_start_offset)
        for batch in write.batches:
            self.batches.append(batch)
            self.log_end_offset = batch.last_offset + 1
        self.epochs.update({each.leader_epoch: each.start_offset for each in write.epochs})
        for producer_id, state in write.producers.items():
            self.producers.pop(producer_id, None)
            if state is not None:
                self.producers[producer_id] = (self.log_end_offset, state)
        self.aborted += write.aborted
        self.log_start_offset = max(self.log_start_offset, write.log_start_offset or 0)
        self.clean_offset = self.clean_offset if write.clean_offset is None else write.clean_offset
        self._note_rows()

    def _note_rows(self) -> None:
        self.rows_at.setdefault(self.log_end_offset, []).append(self.snapshot(-1).producers)

    def restart(self, offset: int) -> None:
        """Empty the log, which continues at `offset`."""
        self.batches, self.epochs, self.producers, self.aborted = [], {}, {}, []
        self.rows_at.clear()
        self.log_start_offset = self.log_end_offset = offset
        self.clean_offset = 0

    def truncate(self, end_offset: int, rebuilt: Mapping[int, bytes] = NO_ROWS) -> None:
        """Truncate the log."""
        before = self.snapshot(-1)
        dropped = [batch.base_offset for batch in self.kept() if batch.last_offset >= end_offset]
        if end_offset < self.log_start_offset:
            dropped, self.batches = [], []
        cut = min([end_offset, *dropped])
        self.batches = [batch for batch in self.batches if batch.last_offset < end_offset]
        self.log_end_offset = min(self.log_end_offset, cut)
        self.log_start_offset = min(self.log_start_offset, cut)
        self.epochs = {each.leader_epoch: each.start_offset for each in before.epochs if each.start_offset < cut}
        stay = {each: row for each, row in self.producers.items() if row[0] <= cut}
        self.producers = {**{each: (cut, row) for each, row in rebuilt.items()}, **stay}
        self.aborted = [each for each in before.aborted if each.last_offset < cut]
        self.clean_offset = min(self.clean_offset, cut)
        self.rows_at = {end: rows for end, rows in self.rows_at.items() if end <= cut}
        self._note_rows()

    def clean(
        self, base_offset: int, end_offset: int, kept: list[StoredBatch], aborted: list[AbortedTransaction]
    ) -> None:
        """Keep only some batches and aborted transactions of a range."""
        around = [each for each in self.batches if not base_offset <= each.base_offset < end_offset]
        self.batches = sorted(around + kept, key=lambda each: each.base_offset)
        self.aborted = [each for each in self.aborted if not base_offset <= each.last_offset < end_offset] + aborted

    def readable(self, start_offset: int, end_offset: int) -> list[StoredBatch]:
        """Return all batches that a read without a size limit may lend."""
        if start_offset >= end_offset:
            return []
        return [each for each in self.batches if each.last_offset >= start_offset and each.last_offset < end_offset]

    def kept(self) -> list[StoredBatch]:
        """Return the batches that are not below the log start."""
        return [each for each in self.batches if each.last_offset >= self.log_start_offset]

    def max_timestamp_ms(self) -> int:
        """Return the largest timestamp of the kept batches, -1 without any."""
        return max((each.max_timestamp_ms for each in self.kept()), default=-1)

    def snapshot(self, max_timestamp_ms: int) -> LogSnapshot:
        """Return the expected result of `load`, except the max timestamp: it may be of a batch below the log start, so
        the caller checks it.
        """
        return LogSnapshot(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            max_timestamp_ms=max_timestamp_ms,
            epochs=visible_epochs(self.epochs, self.log_start_offset),
            producers={producer_id: state for producer_id, (_, state) in self.producers.items()},
            aborted=visible_aborted(self.aborted, self.log_start_offset),
            clean_offset=self.clean_offset,
        )
