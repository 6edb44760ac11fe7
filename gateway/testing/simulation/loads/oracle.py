"""The oracle of a simulation: checks the answers to clients.

Clients record every answer here at once. An answer that contradicts earlier ones raises Violation immediately; the rest
is checked at the end against the whole log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

NO_OFFSET = -1
Log = Mapping[int, Mapping[int, str]]
"""The values of each partition by offset, in order."""


class Invariant(StrEnum):
    """The guarantees that simulations check, by name."""

    ACKNOWLEDGED_ONCE = "an acknowledged offset belongs to one record"
    READS_REPEAT = "an offset holds the same record whenever it is read or acknowledged"
    READS_COMMITTED = "no record at or above the high watermark, or the last stable offset, is read"
    READS_IN_ORDER = "records are read in offset order without gaps"
    BYTES_KEPT = "a batch that is read is one that was written, byte for byte"
    NOTHING_LOST = "an acknowledged or read record is in the log at the end"
    EXACTLY_ONCE = "an idempotent producer's records are in the log once, in order"
    PRODUCE_ACCEPTED = "a correct batch is refused only with errors that the producer may retry"
    PRODUCER_IDS_UNIQUE = "a producer id is given once"
    ONE_OWNER = "a partition has one owner in a generation, or member epoch"
    ONE_HOLDER = "a partition is given to a member only when no other one holds it as a member of the group"
    ALL_OWNED = "once faults are over, every partition that a group reads comes to have one owner"
    GENERATIONS_GROW = "generations and member epochs grow"
    MEMBERS_KEPT = "a live member is told only errors that a rebalance explains"
    FENCED_COMMITS_REFUSED = "a commit of a past generation does not count"
    COMMITS_KEPT = "an acknowledged commit is seen"
    ATOMIC = "of a transaction a reader of committed records sees all records or none"
    ABORTED_HIDDEN = "no record of an aborted or open transaction is shown to a reader of committed records"
    COMMITTED_SHOWN = "the records of a committed transaction are shown"
    STABLE_OFFSET_WAITS = "the last stable offset does not pass an open transaction"
    TRANSACTIONS_END = "no transaction is open for longer than its time-out"
    OFFSETS_WITH_COMMIT = "offsets committed in a transaction are seen if it commits, and only then"
    ZOMBIES_FENCED = "a producer whose transactional id was taken up by another one changes nothing more"
    NEWEST_KEPT = "compaction leaves the newest record of each key, and no older one behind a removed tombstone"
    TOMBSTONES_KEPT = "compaction leaves a tombstone for delete.retention.ms"
    KEPT_ABOVE_START = "every record at or above the log start offset can be read"
    RETENTION_LIMITED = "retention and DeleteRecords remove no more than they may"
    DELETED_STAYS = "what DeleteRecords acknowledged as deleted does not come back"
    TOPICS_KEPT = "acknowledged topics are there, and deleted ones are not"
    ADMIN_ACCEPTED = "a correct admin request is refused only with errors that it may retry"
    STATE_IS_REPLAY = "a restart changes nothing"
    STARTS_AGAIN = "a broker that has served starts again from what is on its disk"
    LIVENESS = "clients come to an end once faults are over"
    SERVES = "a broker without faults answers without errors"
    NO_INTERNAL_ERRORS = "no request meets an error of the broker's own"
    HISTORY = "a history of all operations has no anomaly that Kafka's contract does not allow"
    LEADER_COMPLETE = "a new leader has everything that was ever committed"
    COMMITTED_SAME = "what is committed is the same on every replica, bit by bit, and stays so"
    LOG_MATCHING = "batches of the same offset and epoch are the same on every replica"
    IN_SYNC_HOLDS = "every member of the ISR and of the ELR has what is committed durably"
    HIGH_WATERMARK_GROWS = "a replica's high watermark never goes back"
    METADATA_PREFIX = "all nodes have the same committed metadata"
    ONE_CONTROLLER = "no two nodes decide in one epoch"
    ONE_VOTER_AT_A_TIME = "a leader changes the voters by one, from a set that is committed"
    ASSIGNMENT_CONSISTENT = "a leader is in sync, and who is in sync, added or removed is a replica"
    REASSIGNED_IN_SYNC = "a reassignment ends when all replicas that stay are in sync"
    REASSIGNED_AS_REQUESTED = "a partition has the replicas that were requested, or those it had before"
    REASSIGNMENTS_END = "once faults are over, no reassignment is under way and every partition has a leader"
    NO_CRASH = "no node ends with an error of its own"
    IN_SYNC_AGAIN = "once faults are over, every replica is in sync"


class Violation(AssertionError):  # noqa: N818 - the usual term
    """A broker violated `invariant`."""

    def __init__(self, invariant: Invariant, message: str) -> None:
        super().__init__(f"{invariant.name}: {message}")
        self.invariant = invariant


def check(condition: bool, invariant: Invariant, message: str) -> None:
    """Raise Violation unless `condition` holds."""
    if not condition:
        raise Violation(invariant, message)


class Oracle:
    """Records all answers in one simulation. Methods that check raise Violation."""

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
        self._holders: dict[int, set[str]] = defaultdict(set)
        self._reassigned: dict[str, set[int]] = defaultdict(set)

    def produced(self, producer: str, partition: int, values: Sequence[str]) -> None:
        """A producer is about to send these values, in this order."""
        self.sent[producer].extend((partition, value) for value in values)

    def was_given(self, producer_id: int) -> None:
        """InitProducerId returned this id, which no other producer may have."""
        check(
            producer_id not in self._producer_ids,
            Invariant.PRODUCER_IDS_UNIQUE,
            f"producer id {producer_id} was given twice",
        )
        self._producer_ids.add(producer_id)

    def was_acknowledged(self, partition: int, base_offset: int, values: Sequence[str]) -> None:
        """The broker acknowledged `values` from `base_offset` on."""
        for offset, value in enumerate(values, base_offset):
            before = self.acknowledged.setdefault((partition, offset), value)
            check(
                before == value,
                Invariant.ACKNOWLEDGED_ONCE,
                f"offset {offset} of {partition} acknowledged for {before} and for {value}",
            )
            self._agree(partition, offset, value)

    def was_read(
        self,
        reader: str,
        partition: int,
        position: int,
        end_offset: int,
        log: Sequence[tuple[int, str]],
        *,
        gaps: bool = False,
    ) -> None:
        """A fetch from `position` returned these offsets and values.

        `end_offset` is the high watermark, or the last stable offset, in the answer. If `gaps`, offsets may be missing:
        those of transaction markers, or of records that compaction has removed.
        """
        for offset, value in log:
            check(
                offset < end_offset,
                Invariant.READS_COMMITTED,
                f"{reader} got {partition}@{offset}, and may read up to {end_offset}",
            )
            check(
                offset == position or (gaps and offset > position),
                Invariant.READS_IN_ORDER,
                f"{reader} expected {partition}@{position} and got @{offset}",
            )
            before = self.read.setdefault((partition, offset), value)
            check(before == value, Invariant.READS_REPEAT, f"{partition}@{offset} was read as {before}, now as {value}")
            self._agree(partition, offset, value)
            position = offset + 1

    def _agree(self, partition: int, offset: int, value: str) -> None:
        for seen in (self.acknowledged, self.read):
            other = seen.get((partition, offset), value)
            check(other == value, Invariant.READS_REPEAT, f"{partition}@{offset} was {other}, now it is {value}")

    def was_assigned(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        """A member has received its assignment."""
        check(generation >= 1, Invariant.GENERATIONS_GROW, f"{member} is in generation {generation}")
        self._generation = max(generation, self._generation)
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            check(
                owner == member,
                Invariant.ONE_OWNER,
                f"partition {partition} belongs to {owner} and {member} in generation {generation}",
            )

    # Holders of partitions
    #
    # A member whose session has expired continues until an answer reports that; meanwhile its partitions are assigned
    # to others ("reassigned"). It is a violation if a heartbeat succeeds while its member still holds such a partition.

    def takes(self, member: str, partitions: Iterable[int]) -> None:
        """A member has been assigned these partitions."""
        for partition in partitions:
            for other in self._holders[partition] - {member}:
                self._reassigned[other].add(partition)
            self._holders[partition].add(member)

    def releases(self, member: str, partitions: Iterable[int]) -> None:
        """A member stops using these partitions, and has not yet reported that; or it is no longer a member."""
        for partition in partitions:
            self._holders[partition].discard(member)
            self._reassigned[member].discard(partition)

    def reassigned(self, member: str) -> frozenset[int]:
        """The partitions that the member holds and that were assigned to others."""
        return frozenset(self._reassigned[member])

    def heartbeat_succeeded(self, member: str, reassigned: frozenset[int]) -> None:
        """A heartbeat succeeded; `reassigned` are the member's partitions that had other owners when it was sent."""
        check(
            not reassigned,
            Invariant.ONE_HOLDER,
            f"{member} is still a member and holds {sorted(reassigned)}, which others were given",
        )

    def will_commit(self, partition: int, offset: int) -> None:
        """A commit is about to be sent; until it is answered, it may or may not be stored."""
        self._unsure[partition, offset] += 1

    def is_fenced(self, member: str, generation: int, partition: int) -> bool:
        """True if a commit sent now must be rejected: members already have assignments of a later generation."""
        del member, partition
        return generation < self._generation

    def was_refused(self, partition: int, offset: int) -> None:
        """A commit was answered with an error after which it has no effect."""
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
        """An OffsetFetch returned `offset`.

        It must be the highest that was acknowledged, or one that was sent and never answered: such a commit may take
        effect at any later time, even after a higher one of the same member. Later answers are compared with `offset`.
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
        """Compare all answers with the logs at the end."""
        _judge_seen("acknowledged", self.acknowledged, log)
        self.judge_reads(log)
        for producer, sent in self.sent.items():
            self._judge_producer(producer, sent, log)

    def judge_reads(self, log: Log) -> None:
        """Check that all records that were read are in the logs at the end."""
        _judge_seen("read", self.read, log)

    def _judge_producer(self, producer: str, sent: Sequence[tuple[int, str]], log: Log) -> None:
        for partition, values in log.items():
            stored = [value for value in values.values() if value.startswith(f"{producer}/")]
            wanted = [value for into, value in sent if into == partition]
            if self.idempotent[producer]:
                check(
                    stored == wanted,
                    Invariant.EXACTLY_ONCE,
                    f"{producer}'s records in {partition} {_first_difference(stored, wanted)}",
                )
            else:
                found = set(stored)
                lost = [value for value in wanted if value not in found]
                check(not lost, Invariant.NOTHING_LOST, f"{producer}'s {lost[:3]} are not in {partition}")


class EpochOracle(Oracle):
    """For groups in which each member has its own epoch (KIP-848).

    When the group was converted to a classic one and then lost all members, a new consumer group with the same id
    starts again with low epochs. A member that joins with an epoch below the previous ones shows that this happened.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()

    def was_assigned(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        """A member has received its assignment."""
        if member not in self._known and generation < self._generation:
            self._owners.clear()
            self._generation = generation
        self._known.add(member)
        super().was_assigned(member, generation, partitions)

    def joins_as(self, member: str, member_id: str) -> None:
        """A member is about to join with this member id."""

    def was_removed(self, member_id: str) -> None:
        """A member has learned that the group has removed it; it may join again with the same id."""
        self._known.discard(member_id)

    def is_fenced(self, member: str, generation: int, partition: int) -> bool:
        """True if a commit sent now must be rejected: the partition was assigned to another member."""
        del generation
        return partition in self.reassigned(member)


def _judge_seen(what: str, seen: Mapping[tuple[int, int], str], log: Log) -> None:
    for (partition, offset), value in sorted(seen.items()):
        found = log[partition].get(offset, "nothing")
        check(
            found == value,
            Invariant.NOTHING_LOST,
            f"{partition}@{offset} was {what} as {value}, in the end there is {found}",
        )


def _first_difference(stored: Sequence[str], wanted: Sequence[str]) -> str:
    for index, (one, other) in enumerate(zip(stored, wanted, strict=False)):
        if one != other:
            return f"are {one} instead of {other} at the {index}th place ({len(stored)} stored, {len(wanted)} sent)"
    return f"are {len(stored)}, {len(wanted)} were sent"
