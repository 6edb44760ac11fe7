"""The records of `__transaction_state`, in the bytes that Kafka writes while `transaction.version` is 0."""

from coordinator.shard import ShardRecord
from coordinator.transactions.state import TransactionState
from coordinator.transactions.table import Transaction
from wire.errors import UnsupportedVersionError
from wire.stored.framing import decode_key, decode_value, encode_key, encode_value, transaction_key_types
from wire.stored.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

VALUE_VERSION = 0
"""Version 1 adds tagged fields, and comes with transaction.version 1."""


def transaction_record(transaction: Transaction) -> ShardRecord:
    """An id's whole state. An Empty id has no partitions, which Kafka tells from "none any more" by null."""
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
    )
    return ShardRecord(_key(transaction.transactional_id), encode_value(value, VALUE_VERSION))


def tombstone(transactional_id: str) -> ShardRecord:
    """That nobody uses the id any more."""
    return ShardRecord(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return encode_key(TransactionLogKey(transactional_id=transactional_id))


def decode_id(key: bytes) -> str | None:
    """The transactional id that a record is about; None for a kind that this version does not know.

    Raises wire.errors.DecodeError for other bytes.
    """
    try:
        decoded = decode_key(key, transaction_key_types())
    except UnsupportedVersionError:
        return None
    assert isinstance(decoded, TransactionLogKey)
    return decoded.transactional_id


def decode_transaction(transactional_id: str, value: bytes) -> Transaction:
    """Read an id's state, of either version. Raises wire.errors.ProtocolError for other bytes."""
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
    )
