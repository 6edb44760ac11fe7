"""Stored records as Kafka's own classes write them, and their framing in a log."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_catalogue import message_classes, messages, versions_of

from odradek.wire.consumer_metadata import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from odradek.wire.errors import DecodeError, UnsupportedVersionError
from odradek.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.wire.records.builder import end_transaction_marker, leader_change_marker
from odradek.wire.records.reader import read_records
from odradek.wire.schema.codec import decode_exact
from odradek.wire.schema.schema import Message
from odradek.wire.schema.versioned import decode_versioned
from odradek.wire.stored.control_records import (
    ControlRecordTypeSchema,
    EndTxnMarker,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from odradek.wire.stored.framing import (
    decode_key,
    decode_metadata_record,
    decode_value,
    encode_key,
    encode_metadata_record,
    encode_value,
    group_key_types,
    group_value_types,
    transaction_key_types,
)
from odradek.wire.stored.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.wire.stored.metadata_records import PartitionChangeRecord, TopicRecord
from odradek.wire.stored.transaction_records import TransactionLogKey

ID = UUID(int=(1 << 64) | 2)
MEMBER = MemberMetadata(
    member_id="m1",
    client_id="c",
    client_host="/h",
    rebalance_timeout=1,
    session_timeout=2,
    subscription=b"\3",
    assignment=b"\4",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer", generation=4, protocol="range", leader="m1", current_state_timestamp=77, members=(MEMBER,)
)
CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=7, supported_protocols=(ClassicProtocol(name="range", metadata=b"\1\2"),)
)
CONSUMER = ConsumerGroupMemberMetadataValue(
    client_id="c", client_host="h", subscribed_topic_names=("t",), classic_member_metadata=CLASSIC
)
OFFSET = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=1000)
OFFSET_WITH_ID = OffsetCommitValue(offset=9, leader_epoch=2, metadata="m", commit_timestamp=1000, topic_id=ID)

# Written by the classes of Apache Kafka 4.3.1 from the same values.
VALUES = [
    (OFFSET, 3, "000300000000000000090000000200016d00000000000003e8"),
    (OFFSET_WITH_ID, 4, "0004000000000000000900000002026d00000000000003e801001000000000000000010000000000000002"),
    (
        GROUP,
        3,
        "00030008636f6e73756d657200000004000572616e676500026d31000000000000004d0000000100026d31ffff00016300022f68"
        "000000010000000200000001030000000104",
    ),
    # A nullable struct inside a tagged field also has a presence byte.
    (CONSUMER, 0, "000001010263026802027401ffffffff010100110100000007020672616e67650301020000"),
]
METADATA = [
    (TopicRecord(name="t", topic_id=ID), 0, "01020002740000000000000001000000000000000200"),
    (
        PartitionChangeRecord(partition_id=3, topic_id=ID, leader=5, isr=(5, 6)),
        2,
        "0105020000000300000000000000010000000000000002020009030000000500000006010400000005",
    ),
]


@pytest.mark.parametrize(("value", "version", "content"), VALUES)
def test_values_of_coordinator_records(value: Message, version: int, content: str):
    assert encode_value(value, version).hex() == content
    assert decode_value(type(value), bytes.fromhex(content)) == value


@pytest.mark.parametrize(("record", "version", "content"), METADATA)
def test_metadata_records(record: Message, version: int, content: str):
    assert encode_metadata_record(record, version).hex() == content
    assert decode_metadata_record(bytes.fromhex(content)) == (record, version)


def test_keys_of_coordinator_records():
    key = OffsetCommitKey(group="g", topic="t", partition=5)
    assert encode_key(key).hex() == "000100016700017400000005"
    assert decode_key(encode_key(key), group_key_types()) == key
    assert group_value_types()[1] is OffsetCommitValue
    transaction = TransactionLogKey(transactional_id="x")
    assert decode_key(encode_key(transaction), transaction_key_types()) == transaction


def test_a_record_type_of_a_newer_kafka_is_recognised():
    with pytest.raises(UnsupportedVersionError, match="unknown record type 999"):
        decode_key(b"\x03\xe7abc", group_key_types())
    with pytest.raises(UnsupportedVersionError, match="unknown metadata record type 120"):
        decode_metadata_record(b"\x01\x78\x00")
    with pytest.raises(UnsupportedVersionError, match="unknown metadata frame version 2"):
        decode_metadata_record(b"\x02\x02\x00")
    with pytest.raises(DecodeError):
        decode_key(b"\0", group_key_types())
    with pytest.raises(DecodeError):
        decode_metadata_record(b"\1")


METADATA_CLASSES = [cls for cls in message_classes() if cls.__message__.kind == "metadata"]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_metadata_record_round_trips(data: st.DataObject):
    cls = data.draw(st.sampled_from(METADATA_CLASSES))
    version = data.draw(st.sampled_from(versions_of(cls)))
    record = data.draw(messages(cls, version))
    assert decode_metadata_record(encode_metadata_record(record, version)) == (record, version)


def test_transaction_markers_have_kafkas_schema():
    marker = end_transaction_marker(
        committed=True, producer_id=7, producer_epoch=0, coordinator_epoch=6, timestamp_ms=1
    )
    (record,) = read_records(marker)
    assert record.key is not None
    assert record.value is not None
    assert decode_versioned(ControlRecordTypeSchema, record.key) == (ControlRecordTypeSchema(type=1), 0)
    assert decode_versioned(EndTxnMarker, record.value) == (EndTxnMarker(coordinator_epoch=6), 0)


def test_leader_change_markers_have_kafkas_schema():
    (record,) = read_records(leader_change_marker(leader_id=1, voters=[1, 2], granting_voters=[2], timestamp_ms=8))
    assert record.value is not None
    one, two = (LeaderChangeMessageVoter(voter_id=number) for number in (1, 2))
    expected = LeaderChangeMessage(leader_id=1, voters=(one, two), granting_voters=(two,))
    assert decode_exact(LeaderChangeMessage, 0, record.value) == expected


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_consumer_metadata(version: int):
    subscription = ConsumerProtocolSubscription(topics=("a", "b"), user_data=b"u")
    assert decode_subscription(encode_subscription(subscription, version)) == subscription
    owned = ConsumerProtocolAssignmentTopicPartition(topic="a", partitions=(0, 1))
    assignment = ConsumerProtocolAssignment(assigned_partitions=(owned,))
    assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_consumer_metadata_of_a_newer_client_is_read_as_the_last_version_known():
    subscription = ConsumerProtocolSubscription(topics=("a",), rack_id="r")
    newer = b"\0\x09" + encode_subscription(subscription, 3)[2:] + b"more"
    assert decode_subscription(newer) == subscription
