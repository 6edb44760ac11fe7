"""Invariants of a replicated partition that hold after every step, and the oracle that checks them."""

from bisect import bisect_right
from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from operator import itemgetter
from typing import Final

from replication_disks import Batch, Held, place_of

from odradek.partitions.producers import ProducerEntry
from odradek.partitions.truncation import ProducerRebuild

REBUILT_AT_ONCE: Final = 64


class Invariant(StrEnum):
    """The guarantees of replication, by the names that mutants refer to."""

    LEADER_COMPLETE = "a new leader has everything that was committed up to its epoch"
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

    def agree(self, log: list[Batch], entries: Mapping[int, ProducerEntry]) -> bool:
        """True if the producers' entries are those that the batches lead to.

        If the log's first batches were deleted, an entry may also have batches of those. An entry without batches may
        await the retry of a first batch whose commit has failed.
        """
        rows = self.rows(log)
        entries = {each: entry for each, entry in entries.items() if entry.batches or each in rows}
        if not log or not log[0][0]:
            return rows == {producer_id: entry.encode() for producer_id, entry in entries.items()}
        for producer_id, entry in entries.items():
            left = tuple(batch for batch in entry.batches if batch.last_offset >= log[0][0])
            if producer_id in rows:
                known = ProducerEntry.decode(rows[producer_id])
                if known.batches != left[-len(known.batches) :] or known.producer_epoch != entry.producer_epoch:
                    return False
            elif left:
                return False
        return rows.keys() <= entries.keys()


class Oracle:
    """Records what was committed, from the first high watermark above it, and every batch that was ever durable.

    `deleted` is the highest offset below which records were deleted.
    """

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self.end_offset = 0
        self.deleted = 0
        self.rebuilds = Rebuilds(self.committed)
        self._seen: dict[tuple[int, int], bytes] = {}
        self._ends: dict[int, int] = {}
        """The end of the committed records, by the epoch of the leader that committed them."""
        self.acknowledged: dict[bytes, int] = {}

    def durable(self, name: str, base_offset: int, epoch: int, data: bytes) -> None:
        """A batch is durable on a replica."""
        known = self._seen.setdefault((base_offset, epoch), data)
        if known != data:
            raise Violation(Invariant.LOG_MATCHING, f"{name} has another batch at {base_offset} of epoch {epoch}")

    def commits(self, name: str, epoch: int, high_watermark: int, log: list[Batch], checked: int) -> int:
        """A replica has this high watermark in this leader epoch.

        `log` are its durable batches as (base offset, offset after, bytes); `checked` of them were compared
        before; returns how many are now.
        """
        committed = self.committed
        checked, shift = max(checked, self._first_that_counts(log)), 0
        if self.deleted and checked < len(log):
            shift = place_of(committed, log[checked][0]) - checked
        end = bisect_right(log, high_watermark, lo=checked, key=itemgetter(1))
        known = max(checked, min(end, len(committed) - shift))
        if log[checked:known] != committed[shift + checked : shift + known]:
            at = next(at for at in range(checked, known) if log[at] != committed[shift + at])
            ours = log[at]
            text = f"{name} has another batch at {ours[0]} to {ours[1]} below {high_watermark}"
            raise Violation(Invariant.COMMITTED_SAME, text)
        log[checked:known] = committed[shift + checked : shift + known]  # the same objects, which compare faster
        if end > known:
            committed += log[known:end]
            self.end_offset = self._ends[epoch] = log[end - 1][1]
        return end

    def _first_that_counts(self, log: list[Batch]) -> int:
        """The place of the first batch with records that are not deleted. What precedes it may differ."""
        return bisect_right(log, self.deleted, key=itemgetter(1)) if self.deleted else 0

    def leads(self, name: str, epoch: int, log: list[Batch]) -> None:
        """A replica begins to lead. A slow one may do so after the leader of a later epoch has committed records."""
        end_offset = max((end for each, end in self._ends.items() if each <= epoch), default=0)
        end = place_of(self.committed, end_offset)
        log = log[self._first_that_counts(log) :]
        missing = min(place_of(self.committed, log[0][0]), end) if log else end
        left = self.committed[missing:end]
        if log[: len(left)] != left or not self._are_deleted(missing):
            own = log[-1][1] if log else 0
            raise Violation(Invariant.LEADER_COMPLETE, f"{name} ends at {own} and lacks some of {end_offset}")

    def _holds(self, held: Held) -> bool:
        return held.has(self.committed, self.deleted) and self._are_deleted(held.missing)

    def _are_deleted(self, batches: int) -> bool:
        return not batches or self.committed[batches - 1][1] <= self.deleted

    def in_sync(self, name: str, held: Held) -> None:
        """A replica is eligible for election."""
        end = held.log.live.log_end_offset
        if end < self.end_offset or not self._holds(held):
            raise Violation(Invariant.IN_SYNC_HOLDS, f"{name} ends at {end} and lacks some of {self.end_offset}")
