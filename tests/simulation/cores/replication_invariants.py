"""What must hold of a replicated partition after every step, and what notices when it does not."""

from bisect import bisect_right
from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from operator import itemgetter
from typing import Final

from replication_disks import Batch, Held

from odradek.partitions.truncation import ProducerRebuild

REBUILT_AT_ONCE: Final = 64


class Invariant(StrEnum):
    """The promises of replication, by the names by which mutants are caught."""

    LEADER_COMPLETE = "a new leader has everything that was ever committed"
    COMMITTED_SAME = "what is committed is the same on every replica, bit by bit, and stays so"
    LOG_MATCHING = "batches of the same offset and epoch are the same on every replica"
    IN_SYNC_HOLDS = "every member of the ISR and of the ELR has what is committed durably"
    COMMITTED_STAYS = "no replica cuts off what it knows to be committed"
    ACKNOWLEDGED_ONCE = "a record acknowledged with acks=all is there once"
    PRODUCERS_KNOWN = "a log knows of its producers what its batches say"
    PROGRESS = "when all faults are over, writes are acknowledged, and all replicas are in sync"


class Violation(Exception):  # noqa: N818 - errors are named by condition
    """A promise that was broken."""

    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant.name}: {detail}")
        self.invariant = invariant


class Rebuilds:
    """The rows of producers that a log's batches say. What begins as the committed batches is not read again.

    Of the rebuild of these a copy is kept after every so many.
    """

    def __init__(self, committed: list[Batch]) -> None:
        self._committed = committed
        self._kept = [ProducerRebuild()]

    def rows(self, log: list[Batch]) -> Mapping[int, bytes]:
        self._keep()
        count = min(len(self._kept) - 1, len(log) // REBUILT_AT_ONCE)
        while log[: count * REBUILT_AT_ONCE] != self._committed[: count * REBUILT_AT_ONCE]:
            count -= 1
        return self._taking(self._kept[count], log[count * REBUILT_AT_ONCE :]).rows()

    def _keep(self) -> None:
        while len(self._kept) * REBUILT_AT_ONCE <= len(self._committed):
            end = len(self._kept) * REBUILT_AT_ONCE
            self._kept.append(self._taking(self._kept[-1], self._committed[end - REBUILT_AT_ONCE : end]))

    def _taking(self, rebuild: ProducerRebuild, log: list[Batch]) -> ProducerRebuild:
        rebuild = deepcopy(rebuild)
        for _, _, data in log:
            rebuild.add(memoryview(data))
        return rebuild


class Oracle:
    """Knows what was committed, from the first high watermark that said so, and every batch that was ever durable."""

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self.end_offset = 0
        self.rebuilds = Rebuilds(self.committed)
        self._seen: dict[tuple[int, int], bytes] = {}
        self.acknowledged: dict[bytes, int] = {}

    def durable(self, name: str, base_offset: int, epoch: int, data: bytes) -> None:
        """A batch has come to a replica's disk."""
        known = self._seen.setdefault((base_offset, epoch), data)
        if known != data:
            raise Violation(Invariant.LOG_MATCHING, f"{name} has another batch at {base_offset} of epoch {epoch}")

    def commits(self, name: str, high_watermark: int, log: list[Batch], checked: int) -> int:
        """A replica's high watermark is there; `log` are its durable batches as (base offset, offset after, bytes).

        `checked` of them were seen to be right before; returns how many are now.
        """
        end = bisect_right(log, high_watermark, lo=checked, key=itemgetter(1))
        known = min(end, len(self.committed))
        if log[checked:known] != self.committed[checked:known]:
            place = next(place for place in range(checked, known) if log[place] != self.committed[place])
            ours = log[place]
            text = f"{name} has another batch at {ours[0]} to {ours[1]} below {high_watermark}"
            raise Violation(Invariant.COMMITTED_SAME, text)
        log[checked:known] = self.committed[checked:known]  # the same objects, which are compared in less time
        if end > known:
            self.committed += log[known:end]
            self.end_offset = log[end - 1][1]
        return end

    def leads(self, name: str, log: list[Batch]) -> None:
        """A replica begins to lead."""
        if log[: len(self.committed)] != self.committed:
            end = log[-1][1] if log else 0
            raise Violation(Invariant.LEADER_COMPLETE, f"{name} ends at {end} and lacks some of {self.end_offset}")

    def in_sync(self, name: str, held: Held) -> None:
        """A replica is one that may be elected."""
        end = held.log.live.log_end_offset
        if end < self.end_offset or not held.has(self.committed):
            raise Violation(Invariant.IN_SYNC_HOLDS, f"{name} ends at {end} and lacks some of {self.end_offset}")
