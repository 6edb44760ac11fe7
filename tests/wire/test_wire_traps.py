"""Protocol traps in bytes or in the version table, with one or more tests for each."""

from uuid import UUID

import pytest
from request_frames import decode_request_header

from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, ApiKey
from odradek.wire.errors import DecodeError, ErrorCode, UnsupportedVersionError
from odradek.wire.headers import decode_response, encode_request, encode_response_parts
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from odradek.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from odradek.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.fetch import LeaderIdAndEpoch as FetchLeader
from odradek.wire.messages.fetch import NodeEndpoint as FetchNode
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatResponse
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import LeaderIdAndEpoch as ProduceLeader
from odradek.wire.messages.produce import NodeEndpoint as ProduceNode
from odradek.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.wire.schema.codec import decode, decode_exact, encode


def is_advertised(key: ApiKey, version: int) -> bool:
    first, last = ADVERTISED[key]
    return first <= version <= last


def test_trap_01_produce_is_advertised_from_0_though_0_to_2_are_refused():
    assert ADVERTISED[ApiKey.PRODUCE][0] == 0
    assert KAFKA_VERSIONS[ApiKey.PRODUCE].first == 3
    for version in (0, 1, 2):
        assert is_advertised(ApiKey.PRODUCE, version)
        with pytest.raises(UnsupportedVersionError):
            decode(ProduceRequest, version, bytes(20))


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.JOIN_GROUP, 0),
        (ApiKey.OFFSET_FETCH, 1),
        (ApiKey.INIT_PRODUCER_ID, 0),
        (ApiKey.LIST_OFFSETS, 1),
        (ApiKey.FETCH, 4),
        (ApiKey.FETCH, 10),
        (ApiKey.PRODUCE, 3),
        (ApiKey.PRODUCE, 7),
    ],
)
def test_trap_02_versions_that_old_librdkafka_asks_for_exactly(key: ApiKey, version: int):
    assert is_advertised(key, version)


def test_trap_02_no_minimum_is_above_kafkas():
    for key, served in KAFKA_VERSIONS.items():
        assert ADVERTISED.get(key, (0, 0))[0] <= served.first


@pytest.mark.parametrize("version", [5, 6, 99, 32767])
def test_trap_03_the_header_of_an_unknown_api_versions_version_can_be_read(version: int):
    frame = b"\0\x12" + version.to_bytes(2, "big") + b"\0\0\0\x07" + b"\0\1c" + b"\0" + b"whatever follows"
    header, offset = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, version, 7, "c")
    assert frame[offset:] == b"whatever follows"
    assert not is_advertised(header.api_key, version)


def test_trap_03_unsupported_version_is_answered_in_body_version_0():
    own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(own,))
    content = b"".join(encode_response_parts(response, 0, 7))
    assert content.hex() == "00000010" + "00000007" + "0023" + "00000001" + "0012" + "0000" + "0004"


@pytest.mark.parametrize("number", [-1, 4, 5, 6, 7, 95, 4711])
def test_trap_03_an_unknown_api_key_is_refused(number: int):
    frame = number.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(UnsupportedVersionError, match=f"unknown API key {number}"):
        decode_request_header(frame)


@pytest.mark.parametrize(
    "frame", [b"", b"\0\x12", bytes(9), b"\0\x12\0\0\0\0\0\0\0\x05abc", b"\0\x12\0\x03\0\0\0\0\0\0"]
)
def test_trap_03_what_is_no_header_is_refused(frame: bytes):
    with pytest.raises(DecodeError):
        decode_request_header(frame)


@pytest.mark.parametrize("version", range(6))
def test_trap_04_the_response_header_of_api_versions_is_always_version_0(version: int):
    parts = b"".join(encode_response_parts(ApiVersionsResponse(), version, 7))
    assert parts[8:10] == b"\0\0"
    assert decode_response(ApiKey.API_VERSIONS, version, parts[4:]) == (7, ApiVersionsResponse())


def test_trap_04_other_flexible_responses_have_tagged_fields_in_the_header():
    assert b"".join(encode_response_parts(HeartbeatResponse(), 4, 7))[4:9] == b"\0\0\0\x07\0"
    assert b"".join(encode_response_parts(HeartbeatResponse(), 3, 7))[4:8] == b"\0\0\0\x07"


def test_trap_04_header_2_keeps_the_client_id_as_an_int16_string():
    frame = encode_request(MetadataRequest(), 9, 7, "me")
    assert frame[4:17] == b"\0\x03\0\x09\0\0\0\x07" + b"\0\x02me" + b"\0"
    nameless = encode_request(ApiVersionsRequest(), 3, 7, None)
    assert nameless[4:15] == b"\0\x12\0\x03\0\0\0\x07" + b"\xff\xff" + b"\0"
    assert decode_request_header(nameless[4:])[0].client_id is None


def test_trap_04_a_nullable_struct_has_a_presence_byte():
    without = DescribeTopicPartitionsRequest(response_partition_limit=1)
    assert encode(without, 0) == b"\x01" + b"\0\0\0\x01" + b"\xff" + b"\0"
    cursor = Cursor(topic_name="t", partition_index=2)
    with_cursor = DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=cursor)
    assert encode(with_cursor, 0) == b"\x01" + b"\0\0\0\x01" + b"\x01" + b"\x02t\0\0\0\x02\0" + b"\0"
    for request in (without, with_cursor):
        assert decode_exact(DescribeTopicPartitionsRequest, 0, encode(request, 0)) == request
    heartbeat = ConsumerGroupHeartbeatResponse(assignment=Assignment())
    assert encode(heartbeat, 0).endswith(b"\x01" + b"\x01\0" + b"\0")
    assert encode(ConsumerGroupHeartbeatResponse(), 0).endswith(b"\xff\0")


def test_trap_05_api_versions_stops_at_4():
    assert ADVERTISED[ApiKey.API_VERSIONS] == (0, 4)


def test_trap_06_topic_ids_come_in_one_step():
    first_with_ids = {
        ApiKey.METADATA: 13,
        ApiKey.FETCH: 13,
        ApiKey.PRODUCE: 13,
        ApiKey.OFFSET_COMMIT: 10,
        ApiKey.OFFSET_FETCH: 10,
        ApiKey.DELETE_TOPICS: 6,
    }
    assert len({ADVERTISED[key][1] >= version for key, version in first_with_ids.items()}) == 1


def test_trap_14_markers_and_aborted_transactions():
    uncommitted, committed = (
        FetchResponse(responses=(FetchableTopicResponse(partitions=(PartitionData(aborted_transactions=aborted),)),))
        for aborted in (None, ())
    )
    for version in (4, 12):
        assert encode(uncommitted, version) != encode(committed, version)
        for response in (uncommitted, committed):
            assert decode_exact(FetchResponse, version, encode(response, version)) == response


def test_trap_15_current_leader_is_tag_0_in_produce_from_10():
    partition = PartitionProduceResponse(current_leader=ProduceLeader(leader_id=1, leader_epoch=2))
    response = ProduceResponse(responses=(TopicProduceResponse(partition_responses=(partition,)),))
    tagged = b"\x01" + b"\0\x09" + b"\0\0\0\x01\0\0\0\x02\0"
    assert tagged in encode(response, 10)


def test_trap_15_fetch_has_diverging_epoch_as_tag_0_and_current_leader_as_tag_1():
    partition = PartitionData(
        diverging_epoch=EpochEndOffset(epoch=3, end_offset=4),
        current_leader=FetchLeader(leader_id=1, leader_epoch=2),
    )
    response = FetchResponse(responses=(FetchableTopicResponse(partitions=(partition,)),))
    tagged = b"\x02" + b"\0\x0d" + b"\0\0\0\x03" + bytes(7) + b"\x04\0" + b"\x01\x09" + b"\0\0\0\x01\0\0\0\x02\0"
    assert tagged in encode(response, 12)


@pytest.mark.parametrize("version", [16, 18])
def test_trap_15_node_endpoints_are_tag_0_at_the_top(version: int):
    endpoints = b"\x01" + b"\0\x0d" + b"\x02" + b"\0\0\0\x01" + b"\x02h" + b"\0\0\0\x09" + b"\0" + b"\0"
    node = {"node_id": 1, "host": "h", "port": 9}
    assert encode(FetchResponse(node_endpoints=(FetchNode(**node),)), version).endswith(endpoints)
    assert encode(ProduceResponse(node_endpoints=(ProduceNode(**node),)), 10).endswith(endpoints)


def test_trap_16_epoch_errors_have_kafkas_numbers():
    # 76 is UNSUPPORTED_COMPRESSION_TYPE.
    assert (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH) == (74, 75)


def test_trap_18_find_coordinator_is_a_batch_from_4():
    single = FindCoordinatorRequest(key="g")
    batch = FindCoordinatorRequest(coordinator_keys=("g", "h"))
    assert decode_exact(FindCoordinatorRequest, 3, encode(single, 3)) == single
    assert decode_exact(FindCoordinatorRequest, 4, encode(batch, 4)) == batch


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.FIND_COORDINATOR, 0),
        (ApiKey.HEARTBEAT, 0),
        (ApiKey.LEAVE_GROUP, 0),
        (ApiKey.SYNC_GROUP, 0),
        (ApiKey.OFFSET_FETCH, 1),
        (ApiKey.OFFSET_COMMIT, 2),
        (ApiKey.JOIN_GROUP, 2),
        (ApiKey.API_VERSIONS, 0),
    ],
)
def test_trap_22_versions_that_kafka_go_hard_codes(key: ApiKey, version: int):
    assert is_advertised(key, version)


def test_topic_ids_are_uuids():
    content = bytes.fromhex("01" + "00" * 15 + "2a" + "01" + "00")
    topic, _ = decode(ProduceResponse, 13, b"\x02" + content[1:] + bytes(4) + b"\0")
    assert topic.responses[0].topic_id == UUID(int=42)
