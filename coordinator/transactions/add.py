"""AddPartitionsToTxn and AddOffsetsToTxn: partitions are added to a transaction, or verified to be in it.

A group's offsets are added as the partition of `__consumer_offsets` that holds them. From `transaction.version` 2 on
the broker that a producer writes to adds the partition; before, the producer does (KIP-890).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from odradek.coordinator.transactions.init import FENCING_EPOCH
from odradek.coordinator.transactions.state import NO_OPEN_TRANSACTION, PREPARED, TransactionState
from odradek.coordinator.transactions.table import Partitions, Transaction, TransactionTable
from odradek.wire.errors import ErrorCode


class ProducerIdentity(NamedTuple):
    """The identity of a producer in a request: its transactional id, producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def add_partitions(
    table: TransactionTable, producer: ProducerIdentity, partitions: Partitions, version: int, now_ms: int
) -> tuple[Transaction | None, ErrorCode]:
    """Add partitions to the producer's transaction, all or none; the first ones begin it.

    `version` is the `transaction.version` that the producer uses. Returns the id's next state, None if it does not
    change, and the error for all partitions.
    """
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
    """Returns NONE if the producer is the current one of its transactional id, else the error of the response.

    CONCURRENT_TRANSACTIONS for the next producer id, which becomes current once the markers are written. No producer
    has the fencing epoch, so it is refused even where it is the current one.
    """
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_id != producer.producer_id:
        soon = (producer.producer_id, producer.producer_epoch) == (current.next_producer_id, 0)
        return ErrorCode.CONCURRENT_TRANSACTIONS if soon else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_current = current.producer_epoch == producer.producer_epoch != FENCING_EPOCH
    return ErrorCode.NONE if is_current else ErrorCode.PRODUCER_FENCED


def _union(held: Partitions, added: Partitions) -> Partitions:
    joined = dict(held)
    for topic, indexes in added.items():
        joined[topic] = joined.get(topic, frozenset()) | indexes
    return joined


def verify(
    table: TransactionTable, producer: ProducerIdentity, partitions: Partitions
) -> Mapping[tuple[str, int], ErrorCode]:
    """Check for each (topic, partition) that the producer may write there in its transaction now (KIP-890).

    NONE if it may, TRANSACTION_ABORTABLE if the partition is not in the transaction.
    """
    current = table.transactions.get(producer.transactional_id)
    error = check_producer(current, producer)
    if current is not None and not error and current.state in PREPARED:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    asked = [(topic, index) for topic, indexes in partitions.items() for index in sorted(indexes)]
    return {partition: error or _verify_partition(current, *partition) for partition in asked}


def _verify_partition(current: Transaction | None, topic: str, index: int) -> ErrorCode:
    # A transaction that has ended has no partitions, so that a late batch cannot follow its marker.
    is_in_transaction = current is not None and current.holds(topic, index)
    return ErrorCode.NONE if is_in_transaction else ErrorCode.TRANSACTION_ABORTABLE
