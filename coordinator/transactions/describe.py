"""DescribeTransactions 0 and ListTransactions 0 to 2 (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Iterable
from typing import Final

from odradek.coordinator.regex import Matcher
from odradek.coordinator.transactions.state import STATE_BY_LABEL
from odradek.coordinator.transactions.table import Transaction, TransactionTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import describe_transactions, list_transactions
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.wire.values import immutable

NO_FILTER: Final = -1


def describe_transaction(table: TransactionTable, transactional_id: str) -> describe_transactions.TransactionState:
    """Returns the description of one transactional id."""
    found = table.transactions.get(transactional_id)
    if found is None:
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=missing)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            describe_transactions.TopicData(topic=topic, partitions=tuple(sorted(indexes)))
            for topic, indexes in found.partitions.items()
        ),
    )


@immutable
class Filters:
    """The filters of a request by state, producer id and age; an empty one matches all.

    They are made once for all shards, since a client may name very many ids. The filter by a regular expression is
    `matching`, since it may take long.
    """

    states: frozenset[str]
    unknown_states: tuple[str, ...]
    producer_ids: frozenset[int]
    duration_ms: int

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> "Filters":
        """Returns the filters of `request`."""
        unknown = tuple(name for name in request.state_filters if name not in STATE_BY_LABEL)
        ids = frozenset(request.producer_id_filters)
        return cls(frozenset(request.state_filters), unknown, ids, request.duration_filter)

    def match(self, found: Transaction, now_ms: int) -> bool:
        """Returns True if the transactional id passes all filters."""
        if self.states and found.state.label not in self.states:
            return False
        if self.producer_ids and found.producer_id not in self.producer_ids:
            return False
        return self.duration_ms <= NO_FILTER or now_ms - found.start_ms > self.duration_ms


def list_ids(table: TransactionTable, filters: Filters, now_ms: int) -> ListTransactionsResponse:
    """Returns the shard's ids that match the filters."""
    listed = tuple(
        list_transactions.TransactionState(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            transaction_state=found.state.label,
        )
        for found in table.transactions.values()
        if filters.match(found, now_ms)
    )
    return ListTransactionsResponse(unknown_state_filters=filters.unknown_states, transaction_states=listed)


def matching(
    matcher: Matcher, listed: Iterable[list_transactions.TransactionState]
) -> list[list_transactions.TransactionState]:
    """Returns the ids that an expression matches as a whole. May take long: clients choose the expression."""
    return [each for each in listed if matcher.matches(each.transactional_id)]
