"""The records of `__transaction_state`, in the bytes that Kafka writes at the finalized `transaction.version`."""

from typing import Final

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.transactions.state import TransactionState
from odradek.coordinator.transactions.table import Transaction
from odradek.coordinator.transactions.version import EPOCH_PER_TRANSACTION, TAGGED_RECORDS
from odradek.wire.errors import UnsupportedVersionError
from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.stored.framing import decode_key, decode_value, encode_key, encode_value, transaction_key_types
from odradek.wire.stored.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

TAGGED: Final = 1
UNTAGGED: Final = 0


def transaction_record(transaction: Transaction, level: int) -> ShardRecord:
    """Returns the record of an id's whole state. The partitions of an Empty id are null, as in Kafka.

    Below `transaction.version` 1 it has no tagged fields, unless the state would be incomplete without them.
    """
    tagged = level >= TAGGED_RECORDS or transaction.version >= EPOCH_PER_TRANSACTION
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = tuple(
            PartitionsSchema(topic=topic, partition_ids=tuple(sorted(indexes)))
            for topic, indexes in transaction.partitions.items()
        )
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id if tagged else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.version,
    )
    return ShardRecord(_key(transaction.transactional_id), encode_value(value, TAGGED if tagged else UNTAGGED))


def tombstone(transactional_id: str) -> ShardRecord:
    """Returns the record that removes an id."""
    return ShardRecord(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id))


def decode_id(key: bytes) -> str | None:
    """Returns the transactional id of a record; None for a kind of record that this version does not support.

    Raises odradek.wire.errors.DecodeError for other bytes.
    """
    try:
        decoded = decode_key(key, transaction_key_types())
    except UnsupportedVersionError:
        return None
    assert isinstance(decoded, TransactionLogKey)
    return decoded.transactional_id


def decode_transaction(transactional_id: str, value: bytes) -> Transaction:
    """Decode an id's state, of either version. Raises odradek.wire.errors.ProtocolError for other bytes."""
    decoded = decode_value(TransactionLogValue, value)
    return Transaction(
        transactional_id=transactional_id,
        producer_id=decoded.producer_id,
        producer_epoch=decoded.producer_epoch,
        timeout_ms=decoded.transaction_timeout_ms,
        state=TransactionState(decoded.transaction_status),
        partitions={part.topic: frozenset(part.partition_ids) for part in decoded.transaction_partitions or ()},
        start_ms=decoded.transaction_start_timestamp_ms,
        updated_ms=decoded.transaction_last_update_timestamp_ms,
        version=decoded.client_transaction_version,
        previous_producer_id=decoded.previous_producer_id,
        next_producer_id=decoded.next_producer_id,
    )
