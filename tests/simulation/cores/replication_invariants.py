"""Invariants of a replicated partition that hold after every step, and the oracle that checks them."""

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
    """The guarantees of replication, by the names that mutants refer to."""

    LEADER_COMPLETE = "a new leader has everything that was ever committed"
    COMMITTED_SAME = "what is committed is the same on every replica, bit by bit, and stays so"
    LOG_MATCHING = "batches of the same offset and epoch are the same on every replica"
    IN_SYNC_HOLDS = "every member of the ISR and of the ELR has what is committed durably"
    COMMITTED_STAYS = "no replica cuts off what it knows to be committed"
    ACKNOWLEDGED_ONCE = "a record acknowledged with acks=all is there once"
    PRODUCERS_KNOWN = "a log knows of its producers what its batches say"
    PROGRESS = "when all faults are over, writes are acknowledged, and all replicas are in sync"


class Violation(Exception):  # noqa: N818 - errors are named by condition
    """A violated guarantee."""

    def __init__(self, invariant: Invariant, detail: str) -> None:
        super().__init__(f"{invariant.name}: {detail}")
        self.invariant = invariant


class Rebuilds:
    """The producer state that a log's batches lead to.

    A prefix that equals the committed batches is not read again: copies of the state along that prefix are kept.
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
    """Records what was committed, from the first high watermark above it, and every batch that was ever durable."""

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self.end_offset = 0
        self.rebuilds = Rebuilds(self.committed)
        self._seen: dict[tuple[int, int], bytes] = {}
        self.acknowledged: dict[bytes, int] = {}

    def durable(self, name: str, base_offset: int, epoch: int, data: bytes) -> None:
        """A batch is durable on a replica."""
        known = self._seen.setdefault((base_offset, epoch), data)
        if known != data:
            raise Violation(Invariant.LOG_MATCHING, f"{name} has another batch at {base_offset} of epoch {epoch}")

    def commits(self, name: str, high_watermark: int, log: list[Batch], checked: int) -> int:
        """A replica has this high watermark; `log` are its durable batches as (base offset, offset after, bytes).

        `checked` of them were compared before; returns how many are now.
        """
        end = bisect_right(log, high_watermark, lo=checked, key=itemgetter(1))
        known = min(end, len(self.committed))
        if log[checked:known] != self.committed[checked:known]:
            at = next(at for at in range(checked, known) if log[at] != self.committed[at])
            ours = log[at]
            text = f"{name} has another batch at {ours[0]} to {ours[1]} below {high_watermark}"
            raise Violation(Invariant.COMMITTED_SAME, text)
        log[checked:known] = self.committed[checked:known]  # the same objects, which compare faster
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
        """A replica is eligible for election."""
        end = held.log.live.log_end_offset
        if end < self.end_offset or not held.has(self.committed):
            raise Violation(Invariant.IN_SYNC_HOLDS, f"{name} ends at {end} and lacks some of {self.end_offset}")
