"""What must hold of a replicated partition after every step, and what notices when it does not."""

from enum import StrEnum

from odradek.storage_backends.memory.medium import MediumLog


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


class Held:
    """How many of the committed batches a disk has. What was compared is not again, unless the disk was cut since."""

    def __init__(self, log: MediumLog) -> None:
        self.log = log
        self.forget()

    def forget(self) -> None:
        """The disk was cut."""
        self.batches = self._segment = self._place = 0

    def has(self, committed: list[tuple[int, int, bytes]]) -> bool:
        segments = self.log.live.segments
        while self.batches < len(committed):
            batches = segments[self._segment].batches
            if self._place < len(batches):
                batch = batches[self._place]
                if (batch.base_offset, batch.last_offset + 1, batch.data) != committed[self.batches]:
                    return False
                self._place, self.batches = self._place + 1, self.batches + 1
            elif self._segment + 1 < len(segments):
                self._segment, self._place = self._segment + 1, 0
            else:
                return False
        return True


class Oracle:
    """Knows what was committed, from the first high watermark that said so, and every batch that was ever durable."""

    def __init__(self) -> None:
        self.committed: list[tuple[int, int, bytes]] = []
        self.end_offset = 0
        self._seen: dict[tuple[int, int], bytes] = {}
        self.acknowledged: dict[bytes, int] = {}

    def durable(self, name: str, base_offset: int, epoch: int, data: bytes) -> None:
        """A batch has come to a replica's disk."""
        known = self._seen.setdefault((base_offset, epoch), data)
        if known != data:
            raise Violation(Invariant.LOG_MATCHING, f"{name} has another batch at {base_offset} of epoch {epoch}")

    def commits(self, name: str, high_watermark: int, log: list[tuple[int, int, bytes]], checked: int) -> int:
        """A replica's high watermark is there; `log` are its durable batches as (base offset, offset after, bytes).

        `checked` of them were seen to be right before; returns how many are now.
        """
        for place in range(checked, len(log)):
            ours = log[place]
            if ours[1] > high_watermark:
                return place
            if place == len(self.committed):
                self.committed.append(ours)
                self.end_offset = ours[1]
            elif ours != self.committed[place]:
                text = f"{name} has another batch at {ours[0]} to {ours[1]} below {high_watermark}"
                raise Violation(Invariant.COMMITTED_SAME, text)
        return len(log)

    def leads(self, name: str, log: list[tuple[int, int, bytes]]) -> None:
        """A replica begins to lead."""
        if log[: len(self.committed)] != self.committed:
            end = log[-1][1] if log else 0
            raise Violation(Invariant.LEADER_COMPLETE, f"{name} ends at {end} and lacks some of {self.end_offset}")

    def in_sync(self, name: str, held: Held) -> None:
        """A replica is one that may be elected."""
        end = held.log.live.log_end_offset
        if end < self.end_offset or not held.has(self.committed):
            raise Violation(Invariant.IN_SYNC_HOLDS, f"{name} ends at {end} and lacks some of {self.end_offset}")
