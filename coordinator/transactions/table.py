"""The transactional ids of one shard; operations take the table as their first argument."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.state import TransactionState
from odradek.coordinator.transactions.version import HIGHEST, PLAIN
from odradek.wire.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NO_TIME = -1

Partitions = Mapping[str, frozenset[int]]
"""The partition indexes by topic."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id, as in its last record. `start_ms` is when the last transaction began, or -1.

    `version` is the `transaction.version` that its last transition used. `previous_producer_id` is the one before that
    transition; `next_producer_id` takes effect when the markers are written, -1 if the producer id stays the same.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    start_ms: int
    updated_ms: int
    version: int = PLAIN
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def deadline_ms(self) -> int:
        """When the transaction times out, if it is still open."""
        return self.start_ms + self.timeout_ms

    def holds(self, topic: str, partition: int) -> bool:
        """True if the partition is in the transaction."""
        return partition in self.partitions.get(topic, ())


class Predecessor(NamedTuple):
    """The producer id and epoch before the current ones: an InitProducerId that contains them is a retry."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NO_PREDECESSOR = Predecessor()


@dataclass(slots=True)
class TransactionTable:
    """The transactional ids of one partition of `__transaction_state`. `predecessors` and postponed time-outs are
    lost at a restart, everything else is replayed.

    `level` returns the cluster's finalized `transaction.version`.
    """

    config: TransactionConfig
    level: Callable[[], int] = lambda: HIGHEST
    transactions: dict[str, Transaction] = field(default_factory=dict[str, Transaction])
    predecessors: dict[str, Predecessor] = field(default_factory=dict[str, Predecessor])
    unfinished: dict[str, None] = field(default_factory=dict[str, None])
    """Decided ids that `take_unfinished` has not returned yet, in the order of their decisions."""
    expiry_due_ms: int | None = None
    _deadlines: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    """When to time out an id, and the deadline of the transaction that this is for; the first may be later."""

    def add_deadline(self, transaction: Transaction) -> None:
        """Register the time-out of a transaction that has just begun."""
        self.postpone(transaction, transaction.deadline_ms)

    def postpone(self, transaction: Transaction, until_ms: int) -> None:
        """Register another time-out of a transaction, whose own has been removed."""
        heapq.heappush(self._deadlines, (until_ms, transaction.transactional_id, transaction.deadline_ms))

    def next_timeout_ms(self) -> int | None:
        """Returns when the first transaction times out, None when none is open."""
        while self._deadlines and not self._counts(*self._deadlines[0][1:]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def pop_timed_out(self, now_ms: int) -> Transaction | None:
        """Returns the transaction that timed out first, and removes its deadline; None if none has timed out."""
        due_ms = self.next_timeout_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        return self.transactions[heapq.heappop(self._deadlines)[1]]

    def _counts(self, transactional_id: str, deadline_ms: int) -> bool:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return False
        return transaction.deadline_ms == deadline_ms
