"""Every message in every version is decoded to what was encoded; fields that a version lacks are refused."""

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_catalogue import message_classes, messages, versions_of

from odradek.wire.errors import DecodeError, EncodeError, ProtocolError, UnsupportedVersionError
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, NodeEndpoint, PartitionData
from odradek.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.schema.codec import decode, decode_exact, encode, encode_parts
from odradek.wire.schema.runtime import MAX_REQUEST_ELEMENTS
from odradek.wire.schema.schema import Message


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_defaults_round_trip_in_every_version(cls: type[Message]):
    for version in versions_of(cls):
        message = with_required_values(cls())
        assert decode_exact(cls, version, encode(message, version)) == message


def with_required_values(message: Message) -> Message:
    """Like Kafka, the schema has a null default for these fields, which must not be sent."""
    nulls: dict[str, Any] = {
        spec.name: b"" if spec.type.name == "records" else ()
        for spec in message.__fields__
        if spec.default is None and spec.nullable.first > spec.nullable.last and spec.type.struct is None
    }
    return dataclasses.replace(message, **nulls)


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_values_round_trip_in_every_version(cls: type[Message], data: st.DataObject):
    for version in versions_of(cls):
        message = data.draw(messages(cls, version))
        content = encode(message, version)
        assert decode_exact(cls, version, content) == message
        framed = b"before" + bytes(content) + b"after"
        assert decode(cls, version, framed, 6) == (message, 6 + len(content))
        assert b"".join(encode_parts(message, version)) == content
        with pytest.raises(ProtocolError):
            decode_exact(cls, version, bytes(content) + b"\0")
        if content:
            with pytest.raises(ProtocolError):
                decode_exact(cls, version, content[:-1])


def produce_request(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(acks=-1, topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))


def fetch_response(records: Any) -> FetchResponse:
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(PartitionData(records=records),)),))


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_records_are_a_view_of_the_input(version: int):
    content = bytearray(encode(produce_request(b"batch"), version))
    records = decode_exact(ProduceRequest, version, content).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is content
    assert records == b"batch"


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_passed_on_as_they_are(version: int):
    first, second = b"first batch", memoryview(bytearray(b"second"))
    response = fetch_response([first, b"", second])
    parts = encode_parts(response, version)
    assert [part for part in parts if part is first or part is second] == [first, second]
    assert b"".join(parts) == encode(fetch_response(b"first batchsecond"), version)


def test_null_and_empty_records_differ():
    for records in (None, b""):
        decoded = decode_exact(FetchResponse, 12, encode(fetch_response(records), 12))
        assert decoded.responses[0].partitions[0].records == records


def test_a_version_that_a_message_lacks_is_refused():
    for version in (-1, 2, 14):
        with pytest.raises(UnsupportedVersionError, match="ProduceRequest has versions 3 to 13"):
            decode(ProduceRequest, version, b"")
        with pytest.raises(UnsupportedVersionError):
            encode(ProduceRequest(), version)


def test_a_value_that_the_version_cannot_carry_is_not_lost():
    response = FindCoordinatorResponse(coordinators=(Coordinator(key="g"),))
    assert encode(response, 4)
    with pytest.raises(EncodeError, match=r"FindCoordinatorResponse\.coordinators .* version 3"):
        encode(response, 3)


def test_an_ignorable_value_is_left_out():
    assert encode(MetadataResponse(cluster_id="c"), 1) == encode(MetadataResponse(), 1)


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_null_topics_ask_for_all_where_the_version_knows_null(version: int):
    request = MetadataRequest(topics=None)
    if version == 0:
        with pytest.raises(EncodeError):
            encode(request, version)
    else:
        assert decode_exact(MetadataRequest, version, encode(request, version)) == request


def test_null_where_none_is_allowed_is_refused():
    assert encode(HeartbeatRequest(group_id=""), 0)[:2] == b"\0\0"
    with pytest.raises(DecodeError, match=r"HeartbeatRequest\.group_id is null"):
        decode(HeartbeatRequest, 0, b"\xff\xff" + bytes(20))
    with pytest.raises(EncodeError):
        encode(dataclasses.replace(HeartbeatRequest(), group_id=None), 0)


@pytest.mark.parametrize("message", [HeartbeatRequest(generation_id=2**31), HeartbeatRequest(group_id="x" * 32768)])
@pytest.mark.parametrize("version", [0, 4])
def test_values_out_of_range_are_refused(message: HeartbeatRequest, version: int):
    with pytest.raises(EncodeError):
        encode(message, version)


def test_a_string_of_32767_bytes_is_the_longest():
    message = HeartbeatRequest(group_id="x" * 32767)
    for version in (0, 4):
        assert decode_exact(HeartbeatRequest, version, encode(message, version)) == message


def test_bytes_that_are_no_utf8_are_replaced_as_kafka_does():
    content = bytes(encode(HeartbeatRequest(group_id="abc"), 0)).replace(b"abc", b"a\xffc")
    assert decode_exact(HeartbeatRequest, 0, content).group_id == "a\ufffdc"


def test_unknown_tags_travel_on_between_known_ones():
    partition = PartitionData(unknown_tagged_fields=((7, b"seven"), (300, b"")))
    response = FetchResponse(responses=(FetchableTopicResponse(partitions=(partition,)),))
    assert decode_exact(FetchResponse, 12, encode(response, 12)) == response


def test_an_unknown_tag_that_is_a_known_one_is_our_bug():
    response = FetchResponse(node_endpoints=(NodeEndpoint(),), unknown_tagged_fields=((0, b""),))
    with pytest.raises(EncodeError, match="tagged field 0 is given twice"):
        encode(response, 16)


def test_a_tagged_field_that_does_not_fill_its_size_is_refused():
    # FetchRequest's tag 0 is the cluster id; its size is one byte more than the string.
    content = fetch_request_with_tag(b"\0\3\2x\0")
    with pytest.raises(DecodeError, match="does not fill its 3 bytes"):
        decode_exact(FetchRequest, 12, content)


def fetch_request_with_tag(tag: bytes) -> bytes:
    content = bytes(encode(FetchRequest(), 12))
    assert content.endswith(b"\0")
    return content[:-1] + b"\1" + tag


def test_a_request_cannot_claim_more_elements_than_its_bytes_can_hold():
    content = bytes(encode(CreateTopicsRequest(topics=(CreatableTopic(name="t"),)), 2))
    hostile = b"\x7f\xff\xff\xff" + content[4:]
    with pytest.raises(DecodeError, match=r"CreateTopicsRequest\.topics claims 2147483647 elements"):
        decode(CreateTopicsRequest, 2, hostile)


def test_a_request_cannot_hold_more_than_a_million_elements():
    protocol = JoinGroupRequestProtocol(name="")
    request = JoinGroupRequest(protocols=(protocol,) * (MAX_REQUEST_ELEMENTS + 1))
    with pytest.raises(DecodeError, match="more than 1000000 elements"):
        decode(JoinGroupRequest, 0, encode(request, 0))


@pytest.mark.parametrize("offset", [-1, 5])
def test_an_offset_outside_the_input_is_refused(offset: int):
    with pytest.raises(DecodeError):
        decode(HeartbeatRequest, 0, bytes(4), offset)
