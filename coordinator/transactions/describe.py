"""DescribeTransactions 0 and ListTransactions 0 to 2 (KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Iterable
from typing import Final

from odradek.coordinator.regex import Matcher
from odradek.coordinator.transactions.state import STATE_BY_LABEL
from odradek.coordinator.transactions.table import Transaction, TransactionTable
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import describe_transactions, list_transactions
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

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


def list_ids(table: TransactionTable, request: ListTransactionsRequest, now_ms: int) -> ListTransactionsResponse:
    """Returns the shard's ids that match the filters by state, producer id and age; an empty filter matches all.

    The filter by a regular expression is `matching`, since it may take long.
    """
    unknown = tuple(name for name in request.state_filters if name not in STATE_BY_LABEL)
    listed = tuple(
        list_transactions.TransactionState(
            transactional_id=found.transactional_id,
            producer_id=found.producer_id,
            transaction_state=found.state.label,
        )
        for found in table.transactions.values()
        if _is_wanted(found, request, now_ms)
    )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def matching(
    matcher: Matcher, listed: Iterable[list_transactions.TransactionState]
) -> list[list_transactions.TransactionState]:
    """Returns the ids that an expression matches as a whole. May take long: clients choose the expression."""
    return [each for each in listed if matcher.matches(each.transactional_id)]


def _is_wanted(found: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and found.state.label not in request.state_filters:
        return False
    if request.producer_id_filters and found.producer_id not in request.producer_id_filters:
        return False
    return request.duration_filter <= NO_FILTER or now_ms - found.start_ms > request.duration_filter
