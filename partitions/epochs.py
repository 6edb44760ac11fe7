"""The history of leader epochs: the start offset of each epoch (KIP-101, KIP-279, KIP-320).

Entries are strictly increasing in both epoch and offset. An entry that a newer one contradicts (same or later start) is
dropped, so an epoch in which nothing was written leaves no entry. When the log start moves, the start of the entry that
covers it moves too.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from odradek.partitions.model import EpochStart
from odradek.partitions.results import NO_LEADER_EPOCH, UNKNOWN_OFFSET, EpochEnd


class EpochHistory:
    """The epochs of one log. Rebuilt from its stored entries, in any order, it equals the history that wrote them."""

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for entry in sorted(entries, key=lambda entry: entry.leader_epoch):
            self.assign(entry.leader_epoch, entry.start_offset)

    @property
    def entries(self) -> Sequence[EpochStart]:
        """The history in order."""
        return [EpochStart(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest(self) -> int:
        """The newest epoch, -1 when the history is empty."""
        return self._epochs[-1] if self._epochs else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> EpochStart | None:
        """Record that `epoch` starts at `start_offset`; returns the entry to store, None if it is not new."""
        assert epoch >= 0
        assert start_offset >= 0
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return None
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return EpochStart(epoch, start_offset)

    def epoch_of(self, offset: int) -> int:
        """Returns the epoch in which `offset` was written, -1 when it is older than the history."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_LEADER_EPOCH

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Returns the largest known epoch <= `epoch` and the offset after its last record.

        As in Kafka, an epoch newer than all known ones gives (-1, -1); one older than all known ones gives itself and
        the start of the history.
        """
        if epoch == NO_LEADER_EPOCH or not self._epochs:
            return EpochEnd(NO_LEADER_EPOCH, UNKNOWN_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return EpochEnd(NO_LEADER_EPOCH, UNKNOWN_OFFSET)
        return EpochEnd(self._epochs[higher - 1] if higher else epoch, self._starts[higher])

    def truncate_start(self, log_start_offset: int) -> None:
        """Remove epochs that ended at or before `log_start_offset`; the epoch that covers it now begins there."""
        covering = bisect_right(self._starts, log_start_offset)
        if covering == 0:
            return
        del self._epochs[: covering - 1]
        del self._starts[: covering - 1]
        self._starts[0] = log_start_offset
