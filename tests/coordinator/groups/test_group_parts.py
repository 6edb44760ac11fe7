"""The small parts of the group coordinator, each against Kafka's own answers where there are any."""

from uuid import UUID

import pytest
from group_script import subscription
from group_world import World, durable_view
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.groups.classic.consumer_protocol import MalformedSubscription, subscribed_topics
from odradek.coordinator.groups.classic.group import ClassicGroup, Member
from odradek.coordinator.groups.classic.states import TRANSITIONS, GroupState
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.records import (
    decode_group,
    decode_key,
    group_record,
    group_tombstone,
    new_group_record,
    offset_record,
    offset_tombstone,
)
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.partitioner import java_string_hash, partition_for
from odradek.coordinator.timers import Timer, TimerKind, Timers
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from odradek.wire.schema.codec import encode
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.stored.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue

NOW_MS = 1_700_000_000_000


# The partitioner, by Java's String.hashCode and Kafka's Utils.abs


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("my-group", -1906497762, 12),
        ("group-with-é", -1518693200, 0),
        ("😀 emoji", -1572615351, 1),
        ("polygenelubricants", -2147483648, 0),
        ("console-consumer-12345", 158455506, 6),
    ],
)
def test_groups_lie_where_kafka_puts_them(group_id, hashed, partition):
    assert java_string_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_partition(group_id, count):
    assert 0 <= partition_for(group_id, count) < count


# Records: the bytes on the right were written by Kafka 4.3.1's GroupCoordinatorRecordSerde


def commit(*, metadata, epoch, topic_id=ZERO_UUID, expire_ms=None):
    partition = OffsetCommitRequestPartition(
        partition_index=3, committed_offset=42, committed_leader_epoch=epoch, committed_metadata=metadata
    )
    return offset_record("g", OffsetCommitRequestTopic(name="t", topic_id=topic_id), partition, NOW_MS, expire_ms)


def a_group():
    group = ClassicGroup("g", NOW_MS)
    metadata = subscription(["t"])
    member = Member("c-1", "i", "c", "/127.0.0.1", 60000, 10000, (("range", metadata),), Timer(TimerKind.SESSION))
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
    shard.replay(ShardRecord(bytes.fromhex(GROUP_KEY), data), 0)
    group = shard._table.groups["g"]
    assert group.state is GroupState.STABLE
    assert group.members["m"].rebalance_timeout_ms == 10  # none is stored, so the session's


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("record_type", [0, 1])
def test_offset_records_of_every_version_are_read(version, record_type):
    key = record_type.to_bytes(2, "big") + bytes.fromhex(OFFSET_KEY)[2:]
    value = version.to_bytes(2, "big") + encode(OffsetCommitValue(offset=9, metadata="m"), version)
    shard = GroupShard(GroupConfig())
    shard.replay(ShardRecord(key, value), 0)
    stored = shard._table.offsets.get("g", "t", 3)
    assert stored is not None
    assert stored.offset == 9


def test_records_of_other_kinds_are_left_alone():
    shard = GroupShard(GroupConfig())
    for key in (b"", b"\0", b"\0\x0b\0\x01g", b"\x7f\xff"):
        assert decode_key(key) is None
        shard.replay(ShardRecord(key, b"whatever"), 0)
        shard.replay(ShardRecord(key, None), 0)
    assert durable_view(shard) == ({}, [], {})


def test_tombstones_of_what_is_not_there_are_harmless():
    shard = GroupShard(GroupConfig())
    shard.replay(group_tombstone("g"), 0)
    shard.replay(offset_tombstone("g", "t", 3), 0)
    assert durable_view(shard) == ({}, [], {})


# Subscriptions


def test_topics_are_read_from_the_prefix_that_all_versions_share():
    assert subscribed_topics(subscription(["t", "ü"]) + b"whatever later versions add") == ["t", "ü"]


@given(st.binary(max_size=40))
def test_other_metadata_is_malformed_and_nothing_worse(data):
    try:
        assert len(subscribed_topics(data)) <= len(data)
    except MalformedSubscription:
        assert data[:6] != b"\0\0\0\0\0\0"


# Timers


def drain(timers, now_ms):
    fired = []
    while (timer := timers.pop_due(now_ms)) is not None:
        fired.append(timer.member_id)
    return fired


def test_a_timer_fires_when_it_was_last_set_to():
    timers, timer = Timers(), Timer(TimerKind.SESSION, member_id="m")
    timers.set(timer, 10)
    timers.set(timer, 30)
    assert timers.next_deadline_ms() == 10, "too early is allowed"
    assert drain(timers, 10) == []
    assert timers.next_deadline_ms() == 30
    timers.set(timer, 20)
    assert timers.next_deadline_ms() == 20
    assert drain(timers, 19) == []
    assert drain(timers, 20) == ["m"]
    assert drain(timers, 99) == []
    assert timers.next_deadline_ms() is None


def test_a_cancelled_timer_does_not_fire_but_may_be_set_again():
    timers, timer = Timers(), Timer(TimerKind.SESSION, member_id="m")
    timers.set(timer, 10)
    timers.cancel(timer)
    assert drain(timers, 10) == []
    assert timers.next_deadline_ms() is None
    timers.set(timer, 12)
    assert drain(timers, 12) == ["m"]


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 20))), max_size=40))
def test_timers_fire_once_each_in_order(settings_made):
    timers = Timers()
    owned = [Timer(TimerKind.SESSION, member_id=str(n)) for n in range(4)]
    expected = {}
    for number, deadline_ms in settings_made:
        if deadline_ms is None:
            timers.cancel(owned[number])
            expected.pop(number, None)
        else:
            timers.set(owned[number], deadline_ms)
            expected[number] = deadline_ms
    first_ms = min(expected.values(), default=99)
    early_ms = timers.next_deadline_ms()
    assert not expected if early_ms is None else early_ms <= first_ms or not expected
    assert drain(timers, first_ms - 1) == []
    assert timers.next_deadline_ms() == min(expected.values(), default=None)
    fired = drain(timers, 20)
    assert sorted(fired) == sorted(map(str, expected))
    assert [expected[int(name)] for name in fired] == sorted(expected.values())


# States


def test_every_live_state_can_end_and_none_begins_again():
    assert TRANSITIONS.keys() == set(GroupState)
    assert all(GroupState.DEAD in TRANSITIONS[state] for state in GroupState if state is not GroupState.DEAD)
    assert not TRANSITIONS[GroupState.DEAD]


# Cost


def test_heartbeats_do_not_grow_the_timer_heap():
    world = World()
    record = group_record(a_group(), {"c-1": b"x"}, 0)
    world.shard.replay(record, 0)
    world.shard.on_loaded(0)
    request = HeartbeatRequest(group_id="g", generation_id=5, member_id="c-1", group_instance_id="i")
    for now_ms in range(0, 100_000, 100):
        world.shard.heartbeat(request, world.caller(4), world.token(), now_ms)
        assert world.shard.next_deadline_ms() <= now_ms + 10_000
        assert not world.shard.on_time(now_ms).records
    assert world.shard.next_deadline_ms() > now_ms
    assert len(world.shard._table.timers._heap) <= 2
