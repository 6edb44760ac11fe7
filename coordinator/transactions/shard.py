"""The transaction coordinator of one partition of `__transaction_state`.

Operations return an `Outcome`; the runtime replays its records, writes them and sends the replies (see
`coordinator.contract`). Once a decision is committed the runtime takes it with `take_unfinished`, writes the markers,
and then calls `complete`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token
from odradek.coordinator.transactions import add, describe, end, expiry, init, records
from odradek.coordinator.transactions import replay as replaying
from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.table import Partitions, Transaction, TransactionTable
from odradek.coordinator.transactions.version import HIGHEST
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

SHORTEST_WAIT_MS: Final = 1_000
"""The minimum time that replies wait for their commit, since it includes a disk sync."""


class TransactionShard:
    """Transactional ids and their transactions; implements `odradek.coordinator.contract.Shard`.

    Every operation returns errors in its reply and raises nothing for input of a client. `level` returns the finalized
    `transaction.version`.
    """

    def __init__(self, config: TransactionConfig, level: Callable[[], int] = lambda: HIGHEST) -> None:
        self.table = TransactionTable(config, level)

    # Called by the runtime

    def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
        """Apply one record of the log."""
        replaying.replay(self.table, record)

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """Do nothing: no record of this log is written in a transaction."""

    def on_loaded(self, now_ms: int) -> Outcome:
        """Schedule the search for expired ids; `take_unfinished` returns the decisions without markers."""
        expiry.schedule_expiry(self.table, now_ms)
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        """Returns when the first transaction times out, or the next search for expired ids is due."""
        due = [at for at in (self.table.next_timeout_ms(), self.table.expiry_due_ms) if at is not None]
        return min(due, default=None)

    def on_time(self, now_ms: int) -> Sequence[Outcome]:
        """Abort transactions that have timed out and remove ids that have expired."""
        fenced = [
            Outcome([self._record(after)], about=after.transactional_id)
            for after in expiry.time_out(self.table, now_ms)
        ]
        expired = [records.tombstone(transactional_id) for transactional_id in expiry.expired_ids(self.table, now_ms)]
        return [*fenced, Outcome(expired)]

    def on_refused(self, about: str, now_ms: int) -> None:
        """Try to abort the transaction again later; it stays open until then."""
        expiry.postpone(self.table, about, now_ms)

    def forget(self, token: Token) -> None:
        """Do nothing: no request is held."""

    def take_unfinished(self) -> Sequence[Transaction]:
        """Returns the decided transactions whose markers must be written; each is returned once."""
        taken = [self.table.transactions[transactional_id] for transactional_id in self.table.unfinished]
        self.table.unfinished.clear()
        return taken

    def has(self, decided: Transaction) -> bool:
        """True if the transaction is still in exactly this state, so that its markers must be written."""
        return self.table.transactions.get(decided.transactional_id) == decided

    # Producers

    def init_producer_id(
        self, request: InitProducerIdRequest, fresh_id: int | None, token: Token, now_ms: int
    ) -> Outcome:
        """Reply with InitProducerIdResponse, or NeedsProducerId: then call again with a `fresh_id`."""
        after, reply = init.init_producer_id(self.table, request, fresh_id, now_ms)
        return self._outcome(after, token, reply)

    def add_partitions(
        self, producer: ProducerIdentity, partitions: Partitions, version: int, token: Token, now_ms: int
    ) -> Outcome:
        """Reply with the ErrorCode for all of the partitions; `version` is as in `add.add_partitions`."""
        after, reply = add.add_partitions(self.table, producer, partitions, version, now_ms)
        return self._outcome(after, token, reply)

    def end_transaction(
        self, producer: ProducerIdentity, committed: bool, version: int, fresh_id: int | None, token: Token, now_ms: int
    ) -> Outcome:
        """Reply with Ended, when the decision is committed; the markers follow.

        Or with NeedsProducerId: then call again with a `fresh_id`.
        """
        after, reply = end.end_transaction(self.table, producer, committed, version, fresh_id, now_ms)
        return self._outcome(after, token, reply)

    # Called by the broker itself

    def verify(self, producer: ProducerIdentity, partitions: Partitions) -> Mapping[tuple[str, int], ErrorCode]:
        """For each (topic, partition), whether the producer may write there now."""
        return add.verify(self.table, producer, partitions)

    def complete(self, ended: Transaction, token: Token, now_ms: int) -> Outcome:
        """Called when all partitions have their markers. Reply with None."""
        return self._outcome(end.complete(self.table, ended, now_ms), token, None)

    # Administration

    def describe_transaction(self, transactional_id: str, token: Token, now_ms: int) -> Outcome:
        """Reply with DescribeTransactions' TransactionState."""
        return Outcome((), (Reply(token, describe.describe_transaction(self.table, transactional_id)),))

    def list_transactions(self, filters: describe.Filters, token: Token, now_ms: int) -> Outcome:
        """Reply with ListTransactionsResponse of this shard's ids, without the pattern (see `describe.matching`)."""
        return Outcome((), (Reply(token, describe.list_ids(self.table, filters, now_ms)),))

    def _outcome(self, after: Transaction | None, token: Token, reply: object) -> Outcome:
        replies = (Reply(token, reply),)
        if after is None:
            return Outcome((), replies)
        # As in Kafka: if the record is not committed because this leader has lost the other replicas, the reply fails
        # in time for the producer to find the new leader.
        return Outcome((self._record(after),), replies, timeout_ms=max(after.timeout_ms, SHORTEST_WAIT_MS))

    def _record(self, after: Transaction) -> ShardRecord:
        replaying.check_transition(self.table.transactions.get(after.transactional_id), after)
        return records.transaction_record(after, self.table.level())
