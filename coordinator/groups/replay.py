"""Routes a record to the part of the shard that it belongs to.

Apart from this, only the end of a producer's transaction (`GroupShard.replay_end`) changes durable state.
"""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.classic.records import decode_classic_key
from odradek.coordinator.groups.classic.replay import remove_group, replay_classic
from odradek.coordinator.groups.consumer.replay import decode_consumer_key, replay_consumer
from odradek.coordinator.groups.offsets.records import decode_offset_key
from odradek.coordinator.groups.offsets.replay import replay_offset
from odradek.coordinator.groups.table import GroupTable


def replay(table: GroupTable, record: ShardRecord, now_ms: int) -> None:
    """Apply one record; unknown kinds of records are ignored.

    Raises:
        odradek.wire.errors.ProtocolError: the bytes do not match their record type.
    """
    offset_key = decode_offset_key(record.key)
    if offset_key is not None:
        replay_offset(table.offsets.store, offset_key, record)
        if record.value is not None and table.find(offset_key[0]) is None:
            # A consumer that assigns its partitions itself is not a member; its group has no record of its own.
            table.classic.groups[offset_key[0]] = ClassicGroup(offset_key[0], now_ms)
        return
    group_id = decode_classic_key(record.key)
    if group_id is not None:
        if record.value is not None:
            table.consumer.forget(group_id)
        replay_classic(table.classic, group_id, record, now_ms)
        return
    consumer_key = decode_consumer_key(record.key)
    if consumer_key is not None:
        if record.value is not None and consumer_key.group_id not in table.consumer.groups:
            # The first record of a consumer group replaces the classic group of the same id.
            remove_group(table.classic, consumer_key.group_id, now_ms)
        replay_consumer(table.consumer, consumer_key, record.value, now_ms)
