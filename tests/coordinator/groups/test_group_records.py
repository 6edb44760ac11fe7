"""The records of groups and offsets compared with Kafka's bytes, and replay of old and unknown ones."""

from uuid import UUID

import pytest
from group_script import subscription
from group_world import World, durable_view

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.generation import group_record, new_group_record
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.records import decode_classic_key, decode_group, group_tombstone
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.consumer.replay import decode_consumer_key
from odradek.coordinator.groups.offsets.records import decode_offset_key, offset_record, offset_tombstone
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.timers import Timer
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from odradek.wire.schema.codec import encode
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.stored.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue

NOW_MS = 1_700_000_000_000


# Records: the bytes on the right were written by Kafka 4.3.1's GroupCoordinatorRecordSerde


def commit(*, metadata, epoch, topic_id=ZERO_UUID, expire_ms=None):
    partition = OffsetCommitRequestPartition(
        partition_index=3, committed_offset=42, committed_leader_epoch=epoch, committed_metadata=metadata
    )
    return offset_record("g", OffsetCommitRequestTopic(name="t", topic_id=topic_id), partition, NOW_MS, expire_ms)


def a_group():
    group = ClassicGroup("g", NOW_MS)
    metadata = subscription(["t"])
    member = Member("c-1", "i", "c", "/127.0.0.1", 60000, 10000, (("range", metadata),), Timer(ClassicTimer.SESSION))
    group.add(member)
    group.protocol_type, group.protocol, group.generation = "consumer", "range", 5
    return group


OFFSET_KEY = "000100016700017400000003"
GROUP_KEY = "0002000167"


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            commit(metadata="mé", epoch=7, topic_id=UUID(int=7)),
            OFFSET_KEY,
            "0004000000000000002a00000007046dc3a90000018bcfe5680001001000000000000000000000000000000007",
        ),
        (
            commit(metadata=None, epoch=-1),
            OFFSET_KEY,
            "0004000000000000002affffffff010000018bcfe5680000",
        ),
        (
            commit(metadata="m", epoch=7, expire_ms=NOW_MS + 1000),
            OFFSET_KEY,
            "0001000000000000002a00016d0000018bcfe568000000018bcfe56be8",
        ),
        (offset_tombstone("g", "t", 3), OFFSET_KEY, None),
        (group_tombstone("g"), GROUP_KEY, None),
        (
            new_group_record(ClassicGroup("g", NOW_MS)),
            GROUP_KEY,
            "0003000000000000ffffffff0000018bcfe5680000000000",
        ),
        (
            group_record(a_group(), {"c-1": b"x"}, NOW_MS),
            GROUP_KEY,
            "00030008636f6e73756d657200000005000572616e67650003632d310000018bcfe568000000"
            "00010003632d31000169000163000a2f3132372e302e302e310000ea6000002710"
            "0000000d000000000001000174ffffffff0000000178",
        ),
    ],
    ids=["offset", "plain-offset", "expiring-offset", "offset-tombstone", "group-tombstone", "new-group", "group"],
)
def test_records_are_kafkas_bytes(record, key, value):
    assert record.key.hex() == key
    assert (None if record.value is None else record.value.hex()) == value


@pytest.mark.parametrize("version", range(5))
def test_group_records_of_every_version_are_read(version):
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="h", session_timeout=10, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(protocol_type="x", generation=4, protocol="p", leader="m", members=(member,))
    data = version.to_bytes(2, "big") + encode(value, version)
    assert decode_group(data).generation == 4
    shard = GroupShard(GroupConfig())
    shard.replay(ShardRecord(bytes.fromhex(GROUP_KEY), data), 0, 0, 0)
    group = shard.table.classic.groups["g"]
    assert group.state is GroupState.STABLE
    assert group.members["m"].rebalance_timeout_ms == 10  # none is stored: the session timeout


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("record_type", [0, 1])
def test_offset_records_of_every_version_are_read(version, record_type):
    key = record_type.to_bytes(2, "big") + bytes.fromhex(OFFSET_KEY)[2:]
    value = version.to_bytes(2, "big") + encode(OffsetCommitValue(offset=9, metadata="m"), version)
    shard = GroupShard(GroupConfig())
    shard.replay(ShardRecord(key, value), 0, 0, 0)
    stored = shard.table.offsets.store.get("g", "t", 3)
    assert stored is not None
    assert stored.offset == 9


def test_records_of_other_kinds_are_left_alone():
    shard = GroupShard(GroupConfig())
    for key in (b"", b"\0", b"\0\x0b\0\x01g", b"\x7f\xff"):
        assert decode_offset_key(key) is decode_classic_key(key) is decode_consumer_key(key) is None
        shard.replay(ShardRecord(key, b"whatever"), 0, 0, 0)
        shard.replay(ShardRecord(key, None), 0, 0, 0)
    assert durable_view(shard) == ({}, [], {})


def test_tombstones_of_what_is_not_there_are_harmless():
    shard = GroupShard(GroupConfig())
    shard.replay(group_tombstone("g"), 0, 0, 0)
    shard.replay(offset_tombstone("g", "t", 3), 0, 0, 0)
    assert durable_view(shard) == ({}, [], {})


# Cost


def test_heartbeats_do_not_grow_the_timer_heap():
    world = World()
    record = group_record(a_group(), {"c-1": b"x"}, 0)
    world.shard.replay(record, 0, 0, 0)
    world.shard.on_loaded(0)
    request = HeartbeatRequest(group_id="g", generation_id=5, member_id="c-1", group_instance_id="i")
    for now_ms in range(0, 100_000, 100):
        world.shard.heartbeat(request, now_ms)
        assert world.shard.next_deadline_ms() <= now_ms + 10_000
        assert not any(outcome.records for outcome in world.shard.on_time(now_ms))
    assert world.shard.next_deadline_ms() > now_ms
    assert world.shard.table.timers.entries <= 2
