"""What clients have seen, and whether it may be: the judge of a simulation.

Everything that a client was told goes in here at once; what contradicts something earlier raises Violation there and
then, the rest is checked at the end against the whole log.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum

NO_OFFSET = -1
Log = Mapping[int, Sequence[str]]
"""The values of each partition, in order from offset 0."""


class Invariant(StrEnum):
    """The promises that simulations check, by name."""

    ACKNOWLEDGED_ONCE = "an acknowledged offset belongs to one record"
    READS_REPEAT = "an offset holds the same record whenever it is read or acknowledged"
    READS_COMMITTED = "no record at or above the high watermark is read"
    READS_IN_ORDER = "records are read in offset order without gaps"
    BYTES_KEPT = "a batch that is read is one that was written, byte for byte"
    NOTHING_LOST = "an acknowledged or read record is in the log at the end"
    EXACTLY_ONCE = "an idempotent producer's records are in the log once, in order"
    PRODUCE_ACCEPTED = "a correct batch is refused only with errors that the producer may retry"
    PRODUCER_IDS_UNIQUE = "a producer id is given once"
    ONE_OWNER = "a partition has one owner in a generation"
    GENERATIONS_GROW = "generations grow"
    MEMBERS_KEPT = "a live member is told only errors that a rebalance explains"
    FENCED_COMMITS_REFUSED = "a commit of a past generation does not count"
    COMMITS_KEPT = "an acknowledged commit is seen"
    TOPICS_KEPT = "acknowledged topics are there, and deleted ones are not"
    ADMIN_ACCEPTED = "a correct admin request is refused only with errors that it may retry"
    STATE_IS_REPLAY = "a restart changes nothing"
    STARTS_AGAIN = "a broker that has served starts again from what is on its disk"
    LIVENESS = "clients come to an end once faults are over"
    SERVES = "a broker without faults answers without errors"
    NO_INTERNAL_ERRORS = "no request meets an error of the broker's own"


class Violation(AssertionError):  # noqa: N818 - what it is called everywhere
    """The broker broke a promise: `invariant` says which."""

    def __init__(self, invariant: Invariant, message: str) -> None:
        super().__init__(f"{invariant.name}: {message}")
        self.invariant = invariant


def check(condition: bool, invariant: Invariant, message: str) -> None:
    """Raise Violation unless `condition` holds."""
    if not condition:
        raise Violation(invariant, message)


class Oracle:
    """All that was seen in one simulation."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.read: dict[tuple[int, int], str] = {}
        self.sent: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.idempotent: dict[str, bool] = {}
        self._owners: dict[tuple[int, int], str] = {}
        self._committed: dict[int, int] = {}
        self._generation = 0
        self._producer_ids: set[int] = set()
        self._unsure: Counter[tuple[int, int]] = Counter()

    def produced(self, producer: str, partition: int, values: Sequence[str]) -> None:
        """A producer is about to send these, in this order."""
        self.sent[producer].extend((partition, value) for value in values)

    def was_given(self, producer_id: int) -> None:
        """InitProducerId answered with this id, which nobody else may have."""
        check(
            producer_id not in self._producer_ids,
            Invariant.PRODUCER_IDS_UNIQUE,
            f"producer id {producer_id} was given twice",
        )
        self._producer_ids.add(producer_id)

    def was_acknowledged(self, partition: int, base_offset: int, values: Sequence[str]) -> None:
        """The broker said that it stored `values` from `base_offset` on."""
        for offset, value in enumerate(values, base_offset):
            before = self.acknowledged.setdefault((partition, offset), value)
            check(
                before == value,
                Invariant.ACKNOWLEDGED_ONCE,
                f"offset {offset} of {partition} acknowledged for {before} and for {value}",
            )
            self._agree(partition, offset, value)

    def was_read(
        self, reader: str, partition: int, position: int, high_watermark: int, log: Sequence[tuple[int, str]]
    ) -> None:
        """A fetch from `position` returned these offsets and values."""
        for offset, value in log:
            check(
                offset < high_watermark,
                Invariant.READS_COMMITTED,
                f"{reader} got {partition}@{offset}, high watermark {high_watermark}",
            )
            check(
                offset == position,
                Invariant.READS_IN_ORDER,
                f"{reader} expected {partition}@{position} and got @{offset}",
            )
            before = self.read.setdefault((partition, offset), value)
            check(before == value, Invariant.READS_REPEAT, f"{partition}@{offset} was read as {before}, now as {value}")
            self._agree(partition, offset, value)
            position += 1

    def _agree(self, partition: int, offset: int, value: str) -> None:
        for seen in (self.acknowledged, self.read):
            other = seen.get((partition, offset), value)
            check(other == value, Invariant.READS_REPEAT, f"{partition}@{offset} was {other}, now it is {value}")

    def was_assigned(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        """A member learnt what it owns."""
        check(generation >= 1, Invariant.GENERATIONS_GROW, f"{member} is in generation {generation}")
        self._generation = max(generation, self._generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            check(
                owner == member,
                Invariant.ONE_OWNER,
                f"partition {partition} belongs to {owner} and {member} in generation {generation}",
            )

    def will_commit(self, partition: int, offset: int) -> None:
        """A commit is sent; until it is answered nobody knows whether it counts."""
        self._unsure[partition, offset] += 1

    def is_fenced(self, generation: int) -> bool:
        """Whether a commit sent now in `generation` comes too late: a later one has its assignments already."""
        return generation < self._generation

    def was_refused(self, partition: int, offset: int) -> None:
        """A commit was answered with an error: it does not count."""
        self._unsure[partition, offset] -= 1

    def was_committed(self, partition: int, offset: int, *, fenced: bool) -> None:
        """A commit was acknowledged."""
        check(
            not fenced,
            Invariant.FENCED_COMMITS_REFUSED,
            f"a commit of {offset} for {partition} counted though its member's generation was over",
        )
        self._unsure[partition, offset] -= 1
        self._committed[partition] = max(offset, self._committed.get(partition, NO_OFFSET))

    def commit_seen(self, member: str, partition: int, offset: int) -> None:
        """An OffsetFetch answered `offset`.

        It is the highest that was acknowledged, or one that was sent and never answered: that may take effect at any
        later time, even after a higher one of the same member.
        """
        floor = self._committed.get(partition, NO_OFFSET)
        unsure = self._unsure[partition, offset] > 0
        check(
            offset == floor or unsure,
            Invariant.COMMITS_KEPT,
            f"{member} sees {offset} committed for {partition}, {floor} was acknowledged",
        )
        self._committed[partition] = offset

    def judge(self, log: Log) -> None:
        """Compare everything with the logs as they are at the end."""
        for what, seen in (("acknowledged", self.acknowledged), ("read", self.read)):
            for (partition, offset), value in sorted(seen.items()):
                values = log[partition]
                found = values[offset] if offset < len(values) else "nothing"
                check(
                    found == value,
                    Invariant.NOTHING_LOST,
                    f"{partition}@{offset} was {what} as {value}, in the end there is {found}",
                )
        for producer, sent in self.sent.items():
            self._judge_producer(producer, sent, log)

    def _judge_producer(self, producer: str, sent: Sequence[tuple[int, str]], log: Log) -> None:
        for partition, values in log.items():
            stored = [value for value in values if value.startswith(f"{producer}/")]
            wanted = [value for into, value in sent if into == partition]
            if self.idempotent[producer]:
                check(
                    stored == wanted,
                    Invariant.EXACTLY_ONCE,
                    f"{producer}'s records in {partition} {_first_difference(stored, wanted)}",
                )
            else:
                lost = [value for value in wanted if value not in set(stored)]
                check(not lost, Invariant.NOTHING_LOST, f"{producer}'s {lost[:3]} are not in {partition}")


def _first_difference(stored: Sequence[str], wanted: Sequence[str]) -> str:
    for index, (one, other) in enumerate(zip(stored, wanted, strict=False)):
        if one != other:
            return f"are {one} instead of {other} at the {index}th place ({len(stored)} stored, {len(wanted)} sent)"
    return f"are {len(stored)}, {len(wanted)} were sent"
