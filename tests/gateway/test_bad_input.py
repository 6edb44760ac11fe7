"""Any input gets Kafka's answer or closes the connection; the log has peer and cause, and the next client is served."""

import logging
import random
import struct

import pytest
from gateway_brokers import ThreadBroker, logged
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_many, produce_request

from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, ApiKey, is_flexible
from odradek.wire.errors import ErrorCode
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages import request_class
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.records.crc import crc32c

REQUEST_MAX_BYTES = 100 * 1024 * 1024


@pytest.fixture(autouse=True)
def everyone_else_is_served(shared_broker, broker_log):
    """Before and after each test, an existing and a new client are served.

    Failures counted in earlier tests are reset, otherwise the log would only count repetitions.
    """
    repeats = shared_broker.broker.services.repeats
    for _ in range(2):
        shared_broker.in_trio(repeats.report)
    with RawClient(shared_broker.address) as bystander:
        assert bystander.call(MetadataRequest(topics=())).brokers
        yield
        assert bystander.call(MetadataRequest(topics=())).brokers
    assert_serves(shared_broker.address)


def assert_cut_off(client, broker_log, cause, level=logging.WARNING):
    assert client.is_closed_by_broker()
    assert logged(broker_log, level, client.peer, cause), broker_log.text


def header(key, version, client_id=b"raw", correlation=1):
    return struct.pack(">hhih", key, version, correlation, len(client_id)) + client_id


# Frames


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "announces 1195725856 bytes", id="http"),
        pytest.param(bytes.fromhex("16030100f5010000f10303") + bytes(240), "announces 369295616 bytes", id="tls"),
        pytest.param(struct.pack(">i", 2**31 - 1), "announces 2147483647 bytes", id="2 GB"),
        pytest.param(struct.pack(">i", REQUEST_MAX_BYTES + 1), "socket.request.max.bytes allows", id="a byte too long"),
        pytest.param(struct.pack(">i", -1), "announces -1 bytes", id="negative"),
        pytest.param(struct.pack(">i", -(2**31)), "announces -2147483648 bytes", id="most negative"),
        pytest.param(struct.pack(">i", 0), "too short for its header", id="empty"),
        pytest.param(struct.pack(">i", 3) + b"abc", "too short for its header", id="no header"),
        pytest.param(struct.pack(">i", 10) + struct.pack(">hhih", 18, 0, 1, 99), "client id claims 99 bytes", id="id"),
    ],
)
def test_what_is_no_frame_is_closed(client, broker_log, data, cause):
    client.send_bytes(data)
    assert_cut_off(client, broker_log, cause)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_closed(client, broker_log, seed):
    client.send_bytes(random.Random(seed).randbytes(4096))
    client.finish_sending()
    assert client.is_closed_by_broker()


@pytest.mark.parametrize("seed", range(40))
def test_noise_in_a_well_formed_frame_is_answered_or_closed(client, broker_log, seed):
    """The frame and the API key are valid, the rest is not, except by chance."""
    chance = random.Random(seed)
    key = chance.choice(list(ADVERTISED))
    version = chance.randint(*ADVERTISED[key])
    client.send_frame(struct.pack(">hhih", key, version, 1, -1) + chance.randbytes(chance.randint(0, 200)))
    client.finish_sending()
    while client.receive_some(4096):
        pass


def test_half_a_frame_and_a_farewell_is_no_event(client, broker_log):
    """Clients that crash or leave are no reason for a warning."""
    client.send_bytes(struct.pack(">i", 100) + b"half")
    client.finish_sending()
    assert client.is_closed_by_broker()
    assert [record for record in broker_log.records if record.levelno >= logging.WARNING] == []


def test_a_reset_is_no_event(shared_broker, broker_log):
    crashing = RawClient(shared_broker.address)
    crashing.send_bytes(struct.pack(">i", 100) + b"half")
    crashing.reset()
    assert_serves(shared_broker.address)
    assert [record for record in broker_log.records if record.levelno >= logging.WARNING] == []


def test_frames_may_come_byte_by_byte(client):
    frame = encode_request(ApiVersionsRequest(), 2, 7, "slow")
    for index in range(len(frame)):
        client.send_bytes(frame[index : index + 1])
    correlation, response = decode_response(ApiKey.API_VERSIONS, 2, client.receive_frame())
    assert (correlation, response.error_code) == (7, 0)


def test_good_requests_before_a_bad_frame_are_answered(client, topic, broker_log):
    """Kafka reads a request only after the previous one is answered, so these answers must not get lost either."""
    frames = [encode_request(produce_request(topic, batch_of(b"%d" % n)), 9, n, "raw") for n in range(5)]
    client.send_bytes(b"".join(frames) + struct.pack(">i", -5))
    for n in range(5):
        correlation, response = decode_response(ApiKey.PRODUCE, 9, client.receive_frame())
        assert (correlation, only(response).error_code, only(response).base_offset) == (n, 0, n)
    assert_cut_off(client, broker_log, "announces -5 bytes")


def test_good_requests_before_a_malformed_one_are_answered(client, topic, broker_log):
    frames = [encode_request(produce_request(topic, batch_of(b"%d" % n)), 9, n, "raw") for n in range(5)]
    client.send_bytes(b"".join(frames))
    client.send_frame(header(ApiKey.METADATA, 1) + struct.pack(">i", 77))
    for n in range(5):
        assert decode_response(ApiKey.PRODUCE, 9, client.receive_frame())[0] == n
    assert_cut_off(client, broker_log, "malformed METADATA v1")


# Keys and versions


@pytest.mark.parametrize("version", [5, 6, 99, 32767])
def test_trap_03_api_versions_of_an_unknown_version_is_answered_in_v0(client, version):
    """The client learns the supported versions, and repeats the request on the same connection."""
    client.send_frame(header(ApiKey.API_VERSIONS, version, correlation=42) + b"\x00" + b"whatever a later version has")
    correlation, response = decode_response(ApiKey.API_VERSIONS, 0, client.receive_frame())
    assert (correlation, response.error_code) == (42, ErrorCode.UNSUPPORTED_VERSION)
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [(18, 0, 4)]
    assert client.call(ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 999, 32767])
def test_trap_03_an_unknown_key_is_closed(client, broker_log, key):
    client.send_frame(header(key, 0) + bytes(20))
    assert_cut_off(client, broker_log, f"unknown API key {key}")


@pytest.mark.parametrize("key", [key for key in ApiKey if key in KAFKA_VERSIONS and key not in ADVERTISED])
def test_trap_03_a_key_that_is_not_served_is_closed(client, broker_log, key):
    client.send_frame(header(key, 0) + bytes(20))
    assert_cut_off(client, broker_log, f"{key.name} v0 is not served")


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (key, version)
        for key, (low, high) in ADVERTISED.items()
        if key is not ApiKey.API_VERSIONS
        for version in (low - 1, high + 1)
    ],
)
def test_trap_03_a_version_that_is_not_served_is_closed(client, broker_log, key, version):
    client.send_frame(header(key, version) + bytes(20))
    assert_cut_off(client, broker_log, f"{key.name} v{version} is not served")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_trap_01_produce_0_to_2_is_advertised_and_closed(client, broker_log, version):
    assert ADVERTISED[ApiKey.PRODUCE][0] <= version
    client.send_frame(header(ApiKey.PRODUCE, version) + struct.pack(">hiI", -1, 1000, 0))
    assert_cut_off(client, broker_log, f"PRODUCE v{version}")


@pytest.mark.parametrize("key", [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE])
def test_trap_20_groups_of_kip_848_are_offered_whole(client, key):
    """librdkafka silently consumes nothing if one of the two, or version 1, is missing."""
    offered = {one.api_key: (one.min_version, one.max_version) for one in client.call(ApiVersionsRequest(), 0).api_keys}
    assert offered[key] == (0, 1)


def test_an_invalid_client_software_name_is_refused(client):
    response = client.call(ApiVersionsRequest(client_software_name="new\nline", client_software_version="1"), 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST


# Bodies


@pytest.mark.parametrize("key", [key for key in ADVERTISED if key is not ApiKey.API_VERSIONS])
def test_a_body_that_ends_too_early_is_closed(client, broker_log, key):
    version = ADVERTISED[key][1]
    frame = encode_request(request_class(key)(), version, 1, "raw")[4:]
    client.send_frame(frame[: len(header(key, version)) + is_flexible(key, version)])
    assert_cut_off(client, broker_log, f"malformed {key.name} v{version}")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(struct.pack(">i", 2**31 - 1), id="2 G topics"),
        pytest.param(struct.pack(">i", 1000) + b"\x00\x01a", id="1000 topics in 3 bytes"),
        pytest.param(struct.pack(">ih", 1, 32767) + b"name", id="a name beyond the end"),
        pytest.param(struct.pack(">ih", 1, -1), id="no name"),
    ],
)
def test_impossible_counts_and_lengths_are_closed(client, broker_log, body):
    client.send_frame(header(ApiKey.METADATA, 1) + body)
    assert_cut_off(client, broker_log, "malformed METADATA v1")


@pytest.mark.parametrize(
    "count", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80" * 11, b"\xff\xff\xff\xff\x07"]
)
def test_impossible_compact_counts_are_closed(client, broker_log, count):
    client.send_frame(header(ApiKey.METADATA, 12) + b"\x00" + count)
    assert_cut_off(client, broker_log, "malformed METADATA v12")


def test_produce_with_a_length_beyond_the_frame_is_closed(client, topic, broker_log):
    name = topic.encode()
    body = struct.pack(">hhiih", -1, -1, 1000, 1, len(name)) + name + struct.pack(">iii", 1, 0, 2**31 - 1) + b"batch"
    client.send_frame(header(ApiKey.PRODUCE, 3) + body)
    assert_cut_off(client, broker_log, "malformed PRODUCE v3")


@pytest.mark.parametrize("level", [2, 7, -1])
@pytest.mark.parametrize("request_type", ["fetch", "list offsets"])
def test_an_isolation_level_that_is_none_is_refused(client, topic, broker_log, request_type, level):
    if request_type == "fetch":
        client.send(fetch_request(topic, [(0, 0)], isolation_level=level))
    else:
        part = ListOffsetsPartition(partition_index=0, timestamp=-1)
        client.send(
            ListOffsetsRequest(
                replica_id=-1, isolation_level=level, topics=(ListOffsetsTopic(name=topic, partitions=(part,)),)
            )
        )
    assert_cut_off(client, broker_log, f"isolation level {level}")


def test_a_cursor_below_zero_is_refused(client, topic):
    """As in Kafka, every requested topic has the error."""
    cursor = Cursor(topic_name=topic, partition_index=-5)
    response = client.call(DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),), cursor=cursor))
    assert [(one.name, one.error_code) for one in response.topics] == [(topic, ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\nb", "a\x00b"])
def test_invalid_topic_names_are_refused(client, name):
    [described] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=name),))).topics
    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.produce(name, batch_of(b"x")).error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )


def test_a_name_cannot_forge_a_line_of_the_log(client, broker_log):
    client.send(produce_request("x\n2026-01-01 level=ERROR forged", batch_of(b"x"), acks=0))
    assert client.is_closed_by_broker()
    assert any("acks=0" in record.getMessage() for record in broker_log.records)
    assert all("\n" not in record.getMessage() for record in broker_log.records)


def test_partitions_that_are_none(client, topic):
    for index in (-1, 1, 2**31 - 1, -(2**31)):
        assert client.produce(topic, batch_of(b"x"), index).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.fetch(topic, partition=index).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [-1, -(2**63), 1, 2**63 - 1])
def test_offsets_that_are_out_of_range(client, topic, offset):
    assert client.fetch(topic, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_limits_below_zero_are_taken_as_none(client, topic):
    client.produce(topic, batch_of(b"x"))
    part = client.fetch(topic, max_bytes=-1, partition_max_bytes=-1, min_bytes=-1, max_wait_ms=-1)
    assert (part.error_code, len(part.records) > 0) == (0, True)


# Batches


def damaged(batch, position, patch, *, crc_again=False):
    data = bytearray(batch)
    data[position : position + len(patch)] = patch
    if crc_again:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


GOOD = batch_of(b"one", b"two", b"three")


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="no batch"),
        pytest.param(GOOD[:40], ErrorCode.INVALID_RECORD, id="cut off in its header"),
        pytest.param(GOOD[:-1], ErrorCode.INVALID_RECORD, id="cut off at its end"),
        pytest.param(GOOD + GOOD, ErrorCode.INVALID_RECORD, id="two batches"),
        pytest.param(damaged(GOOD, 70, b"\xff"), ErrorCode.CORRUPT_MESSAGE, id="wrong checksum"),
        pytest.param(damaged(GOOD, 8, struct.pack(">i", -1)), ErrorCode.CORRUPT_MESSAGE, id="length -1"),
        pytest.param(damaged(GOOD, 8, struct.pack(">i", 2**31 - 1)), ErrorCode.INVALID_RECORD, id="length 2 GB"),
        pytest.param(damaged(GOOD, 16, b"\x01"), ErrorCode.INVALID_RECORD, id="magic 1"),
        pytest.param(damaged(GOOD, 16, b"\x09"), ErrorCode.CORRUPT_MESSAGE, id="magic 9"),
        pytest.param(damaged(GOOD, 57, struct.pack(">i", 0), crc_again=True), ErrorCode.INVALID_RECORD, id="count 0"),
        pytest.param(damaged(GOOD, 57, struct.pack(">i", -1), crc_again=True), ErrorCode.INVALID_RECORD, id="count -1"),
        pytest.param(
            damaged(GOOD, 57, struct.pack(">i", 2**31 - 1), crc_again=True), ErrorCode.INVALID_RECORD, id="2 G"
        ),
        pytest.param(damaged(GOOD, 22, b"\x07", crc_again=True), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 7"),
        pytest.param(damaged(GOOD, 22, b"\x20", crc_again=True), ErrorCode.INVALID_RECORD, id="control batch"),
        pytest.param(random.Random(1).randbytes(500), ErrorCode.CORRUPT_MESSAGE, id="noise"),
    ],
)
def test_trap_11_bad_batches_are_refused_and_the_connection_goes_on(client, topic, batch, error):
    refused = client.produce(topic, batch)
    assert (ErrorCode(refused.error_code), refused.base_offset) == (error, -1)
    assert client.produce(topic, batch_of(b"good")).base_offset == 0
    assert client.values(topic) == [b"good"]


def test_trap_11_a_bad_batch_does_not_hurt_the_other_partitions_of_its_request(client, topic):
    client.create_topic(f"{topic}-wide", partitions=3)
    response = client.call(produce_many([(f"{topic}-wide", n, GOOD if n != 1 else GOOD[:-1]) for n in range(3)]))
    assert [one.partition_responses[0].error_code for one in response.responses] == [0, ErrorCode.INVALID_RECORD, 0]


def test_a_batch_that_does_not_decompress_fails_only_requests_that_read_it(client, topic):
    """Batches are stored unread, so a compressed one may be corrupt; ListOffsets by timestamp has to decompress it."""
    garbage = damaged(batch_of(b"x" * 100, codec=1, timestamp_ms=1000), 70, b"\xff" * 10, crc_again=True)
    assert client.produce(topic, garbage).error_code == 0
    client.produce(topic, batch_of(b"later", timestamp_ms=5000))
    part = ListOffsetsPartition(partition_index=0, timestamp=500)
    [answered] = client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))).topics
    assert answered.partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE
    assert client.end_offset(topic, timestamp=2000) == 1


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_clients_may_not_write_to_internal_topics(client, name):
    """Their records are the state of the coordinators."""
    client.create_topic(name) if name not in described(client) else None
    refused = client.produce(name, batch_of(b"x", key=b"k"))
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.end_offset(name) == 0


def described(client):
    return [topic.name for topic in client.call(MetadataRequest(topics=None)).topics]


# acks=0


def test_trap_10_acks_0_has_no_response(client, topic):
    client.send(produce_request(topic, batch_of(b"unanswered"), acks=0))
    assert client.call(MetadataRequest(topics=())).brokers  # the next frame received belongs to this request
    assert client.values(topic) == [b"unanswered"]


@pytest.mark.parametrize("batch", [GOOD[:-1], damaged(GOOD, 70, b"\xff")])
def test_trap_10_an_error_with_acks_0_closes_the_connection(client, topic, broker_log, batch):
    client.send(produce_request(topic, batch, acks=0))
    assert_cut_off(client, broker_log, f"for '{topic}'-0 with acks=0")


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_are_refused(client, topic, acks):
    refused = client.produce(topic, batch_of(b"x"), acks=acks)
    assert refused.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.end_offset(topic) == 0


# Size limit


def test_requests_up_to_socket_request_max_bytes_are_served(broker_log):
    with ThreadBroker(socket_request_max_bytes=10_000) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        sizes = {
            len(encode_request(produce_request("t", batch_of(b"x" * n)), 11, 1, "raw")): n for n in range(9800, 9950)
        }
        fitting = batch_of(b"x" * sizes[LENGTH_BYTES + 10_000])
        assert client.produce("t", fitting).error_code == 0
        client.send(produce_request("t", fitting + b"x"))
        assert_cut_off(client, broker_log, "socket.request.max.bytes allows 10000")
        assert_serves(broker.address)
