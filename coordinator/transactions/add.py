"""AddPartitionsToTxn and AddOffsetsToTxn: what takes part in a transaction; and who may write where.

The offsets of a group take part as the partition of `__consumer_offsets` that holds them. From `transaction.version` 2
on a producer does not ask: the broker that it writes to does.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from odradek.coordinator.transactions.state import NO_OPEN_TRANSACTION, PREPARED, TransactionState
from odradek.coordinator.transactions.table import Partitions, Transaction, TransactionTable
from odradek.wire.errors import ErrorCode


class ProducerIdentity(NamedTuple):
    """Who a producer says that it is."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def add_partitions(
    table: TransactionTable, producer: ProducerIdentity, partitions: Partitions, version: int, now_ms: int
) -> tuple[Transaction | None, ErrorCode]:
    """The id's next state, None where nothing is new, and the answer for all partitions.

    `version` is the `transaction.version` that the producer follows.
    """
    if not producer.transactional_id:
        return None, ErrorCode.INVALID_REQUEST
    current = table.transactions.get(producer.transactional_id)
    error = check_producer(current, producer)
    if error or current is None:
        return None, error
    if current.state in PREPARED:
        return None, ErrorCode.CONCURRENT_TRANSACTIONS
    begins = current.state in NO_OPEN_TRANSACTION
    held: Partitions = {} if begins else current.partitions
    joined = _union(held, partitions)
    if not begins and joined == held:
        return None, ErrorCode.NONE
    start_ms = now_ms if begins else current.start_ms
    ongoing = replace(
        current,
        state=TransactionState.ONGOING,
        partitions=joined,
        start_ms=start_ms,
        updated_ms=now_ms,
        version=version,
        previous_producer_id=current.producer_id,
    )
    return ongoing, ErrorCode.NONE


def check_producer(current: Transaction | None, producer: ProducerIdentity) -> ErrorCode:
    """Whether the producer is the one that has the id now, or will have it when the markers are written."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_id != producer.producer_id:
        soon = (producer.producer_id, producer.producer_epoch) == (current.next_producer_id, 0)
        return ErrorCode.CONCURRENT_TRANSACTIONS if soon else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if current.producer_epoch == producer.producer_epoch else ErrorCode.PRODUCER_FENCED


def _union(held: Partitions, added: Partitions) -> Partitions:
    joined = dict(held)
    for topic, indexes in added.items():
        joined[topic] = joined.get(topic, frozenset()) | indexes
    return joined


class VerificationResult(NamedTuple):
    """What `verify` says of each (topic, partition)."""

    errors: Mapping[tuple[str, int], ErrorCode]


def verify(table: TransactionTable, producer: ProducerIdentity, partitions: Partitions) -> VerificationResult:
    """Say of each partition whether the producer may write there in its transaction now (KIP-890).

    TRANSACTION_ABORTABLE where the partition takes no part.
    """
    current = table.transactions.get(producer.transactional_id)
    error = check_producer(current, producer) if producer.transactional_id else ErrorCode.INVALID_REQUEST
    if current is not None and not error and current.state in PREPARED:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    places = [(topic, index) for topic, indexes in partitions.items() for index in sorted(indexes)]
    return VerificationResult({place: error or _verify_partition(current, *place) for place in places})


def _verify_partition(current: Transaction | None, topic: str, index: int) -> ErrorCode:
    # A transaction that is over still lists nothing, so that a late batch cannot slip in behind its marker.
    takes_part = current is not None and current.holds(topic, index)
    return ErrorCode.NONE if takes_part else ErrorCode.TRANSACTION_ABORTABLE
