"""The oracle for transactions: checks the answers to transactional producers and readers of committed records.

The outcome of a transaction is known if EndTxn was answered, or if the producer never sent one that commits. If one was
sent and not answered, either outcome is possible, but the same for all of the transaction's records and offsets.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from odradek.gateway.testing.simulation.loads.oracle import Invariant, Log, Oracle, check


class Outcome(Enum):
    """The outcome of a transaction as far as it is known."""

    OPEN = auto()
    UNKNOWN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False)
class Transaction:
    """One transaction; `number` counts the transactions of its transactional id."""

    transactional_id: str
    number: int
    outcome: Outcome = Outcome.OPEN
    sent: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The values sent to each partition."""
    first_offsets: dict[int, int] = field(default_factory=dict[int, int])
    """The offset of its first acknowledged batch in each partition."""
    has_offsets: bool = False
    """True if offsets were sent in it."""
    commit_sent: bool = False
    passed: str = ""
    """A description of a last stable offset that was beyond one of its records while it was open."""

    def __str__(self) -> str:
        return f"{self.transactional_id}/{self.number}"


class TransactionOracle:
    """Records all answers about the transactions on one topic. Methods that check raise Violation."""

    def __init__(self) -> None:
        self.records = Oracle()
        self._transactions: dict[str, Transaction] = {}
        self._not_ended: list[Transaction] = []
        self._numbers: dict[str, int] = defaultdict(int)
        self._owners: dict[str, object] = {}
        self._floors: dict[str, int] = defaultdict(lambda: -1)

    # Producers

    def took_over(self, transactional_id: str, instance: object) -> None:
        """InitProducerId was answered: from now on only `instance` may write with this transactional id."""
        self._owners[transactional_id] = instance

    def is_superseded(self, transactional_id: str, instance: object) -> bool:
        """True if InitProducerId was answered for another instance since."""
        return self._owners[transactional_id] is not instance

    def accepted(self, what: str, transactional_id: str, *, superseded: bool) -> None:
        """A request succeeded; `superseded` is the value of `is_superseded` when it was sent."""
        check(
            not superseded,
            Invariant.ZOMBIES_FENCED,
            f"{what} of a producer counted whose transactional id {transactional_id} another one had taken up",
        )

    def begin(self, transactional_id: str) -> Transaction:
        """A producer begins its next transaction."""
        self._numbers[transactional_id] += 1
        transaction = Transaction(transactional_id, self._numbers[transactional_id])
        self._transactions[str(transaction)] = transaction
        self._not_ended.append(transaction)
        return transaction

    def new_value(self, transaction: Transaction, partition: int) -> str:
        """A value, about to be sent, that contains the name of its transaction."""
        sent = transaction.sent[partition]
        sent.append(f"{transaction}/{partition}.{len(sent)}")
        return sent[-1]

    def was_acknowledged(self, transaction: Transaction, partition: int, base_offset: int, values: list[str]) -> None:
        """The broker acknowledged `values` from `base_offset` on."""
        self.records.was_acknowledged(partition, base_offset, values)
        transaction.first_offsets.setdefault(partition, base_offset)

    def will_commit(self, transaction: Transaction) -> None:
        """An EndTxn that commits is about to be sent; until it is answered the outcome is unknown."""
        transaction.commit_sent, transaction.outcome = True, Outcome.UNKNOWN

    def was_committed(self, transaction: Transaction) -> None:
        """EndTxn was answered: the transaction is committed, and was open until the EndTxn was sent."""
        check(not transaction.passed, Invariant.STABLE_OFFSET_WAITS, f"{transaction} {transaction.passed}")
        transaction.outcome = Outcome.COMMITTED
        if transaction.has_offsets:
            self._floors[transaction.transactional_id] = transaction.number

    def was_given_up(self, transaction: Transaction) -> None:
        """The producer got the answer that the transaction is aborted, or will never commit it."""
        if not transaction.commit_sent:
            transaction.outcome = Outcome.ABORTED

    # Readers

    def was_read(
        self,
        reader: str,
        partition: int,
        position: int,
        stable_offset: int,
        log: list[tuple[int, str]],
    ) -> None:
        """A read_committed fetch returned these records, and this last stable offset."""
        self.records.was_read(reader, partition, position, stable_offset, log, gaps=True)
        for offset, value in log:
            transaction = self._of(value)
            check(
                transaction.commit_sent,
                Invariant.ABORTED_HIDDEN,
                f"{reader} got {value} at {partition}@{offset}, of a transaction that is {transaction.outcome.name}",
            )
        self._not_ended = [each for each in self._not_ended if each.outcome is Outcome.OPEN]
        for transaction in self._not_ended:
            first = transaction.first_offsets.get(partition, stable_offset)
            if first < stable_offset:
                transaction.passed = f"is in {partition} from {first} on; the last stable offset was {stable_offset}"

    def _of(self, value: str) -> Transaction:
        return self._transactions[value.rpartition("/")[0]]

    def floor(self, transactional_id: str) -> int:
        """The newest transaction with offsets that is known to be committed; -1 for none."""
        return self._floors[transactional_id]

    def offset_seen(self, transactional_id: str, floor: int, offset: int) -> None:
        """A stable OffsetFetch returned `offset`; `floor` is the result of `floor` when it was sent."""
        found = self._transactions.get(f"{transactional_id}/{offset}")
        check(
            offset == -1 or (found is not None and found.commit_sent and found.has_offsets),
            Invariant.OFFSETS_WITH_COMMIT,
            f"the offsets of {transactional_id}/{offset} are seen, which was not committed",
        )
        check(
            offset >= floor,
            Invariant.COMMITS_KEPT,
            f"the offset of {transactional_id}/{offset} is seen after {transactional_id}/{floor} was committed",
        )

    # The end

    def judge(self, log: Log, offsets: Mapping[str, int]) -> None:
        """Compare all answers with the committed records, and with the committed offsets, at the end."""
        visible: dict[Transaction, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for partition, values in log.items():
            for value in values.values():
                visible[self._of(value)][partition].append(value)
        newest: dict[str, int] = defaultdict(lambda: -1)
        for transaction in self._transactions.values():
            self._judge_transaction(transaction, visible[transaction])
            if visible[transaction] and transaction.has_offsets:
                newest[transaction.transactional_id] = transaction.number
        for transactional_id, offset in offsets.items():
            check(
                offset == newest[transactional_id],
                Invariant.OFFSETS_WITH_COMMIT,
                f"the offset of {transactional_id} is {offset}, the newest that is seen is {newest[transactional_id]}",
            )
        self.records.judge_reads(log)

    def _judge_transaction(self, transaction: Transaction, visible: Mapping[int, list[str]]) -> None:
        sent = {partition: values for partition, values in transaction.sent.items() if values}
        whole = dict(visible) == sent
        check(
            whole or not visible,
            Invariant.ATOMIC,
            f"of {transaction} ({transaction.outcome.name}) {dict(visible)} are seen, sent were {sent}",
        )
        check(
            not (visible and transaction.outcome is Outcome.ABORTED),
            Invariant.ABORTED_HIDDEN,
            f"{transaction} was aborted, and its {dict(visible)} are seen",
        )
        check(
            whole or transaction.outcome is not Outcome.COMMITTED,
            Invariant.COMMITTED_SHOWN,
            f"{transaction} was committed, and {dict(visible)} of {sent} are seen",
        )
