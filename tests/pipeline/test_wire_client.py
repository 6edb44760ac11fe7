"""The client over our own wire messages: raw batches, leaders, deleted topics, closed connections."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import BrokerError, Fetched, TopicGoneError, WireClient
from odradek.pipeline.wire_groups import WireGroups
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.find_coordinator import FindCoordinatorResponse
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.wire.records.batch import check_crc, iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.schema.schema import Message

PART = TopicPartition("t", 0)


@pytest.fixture
def client(connection: Connection) -> Iterator[WireClient]:
    with WireClient(connection) as client:
        yield client


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The client's sockets."""
    found, connect = list[socket.socket](), socket.create_connection

    def noted(address: tuple[str, int], timeout_s: float) -> socket.socket:
        found.append(connect(address, timeout_s))
        return found[-1]

    monkeypatch.setattr(socket, "create_connection", noted)
    return found


def create(connection: Connection, name: str = "t", partitions: int = 1, **config: str) -> None:
    admin = AdminClient(connection.for_librdkafka())
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()


def batch(offset: int, *values: bytes) -> bytes:
    return build_batch([SimpleRecord(b"k", value, 5) for value in values], base_offset=offset)


def fetch(client: WireClient, partition: TopicPartition = PART, offset: int = 0) -> Fetched:
    return client.fetch({partition: offset}, max_bytes=1 << 20, partition_max_bytes=1 << 20, max_wait_ms=0)[partition]


def test_batches_are_imported_and_fetched_as_they_are(client: WireClient, connection: Connection) -> None:
    create(connection, partitions=2)
    batches = {PART: batch(3, b"a", b"b"), TopicPartition("t", 1): batch(0, b"c")}
    imported = client.import_batches(batches)
    assert {partition: (one.error, one.log_end_offset) for partition, one in imported.items()} == {
        PART: (0, 5),
        TopicPartition("t", 1): (0, 1),
    }
    for partition, sent in batches.items():
        assert bytes(fetch(client, partition).records)[16:] == sent[16:]
    assert client.list_offsets(batches, LATEST) == {PART: 5, TopicPartition("t", 1): 1}
    assert client.list_offsets([PART], EARLIEST) == {PART: 0}
    again = client.import_batches({PART: batches[PART]})[PART]
    assert (again.error, again.log_end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 5)


def test_batches_in_many_parts_are_sent_one_after_the_other(client: WireClient, connection: Connection) -> None:
    create(connection)
    sent = b"".join(batch(number, b"%d" % number * 200_000) for number in range(20))
    parts = [sent[begin : begin + 9_999] for begin in range(0, len(sent), 9_999)]
    parts = [part for one in parts for part in (one[:1], b"", memoryview(one)[1:])]
    assert len(parts) > 1_000
    assert client.import_batches({PART: parts})[PART] == (0, None, 20)
    for number in range(20):
        (header, *_) = iter_headers(stored := fetch(client, offset=number).records, allow_partial_tail=True)
        check_crc(stored, header)
        assert bytes(stored[16 : header.size_bytes]) == batch(number, b"%d" % number * 200_000)[16:]


def test_what_a_client_produced_is_fetched_in_its_batches(client: WireClient, connection: Connection) -> None:
    create(connection)
    producer = Producer({**connection.for_librdkafka(), "compression.type": "lz4", "linger.ms": 50})
    for number in range(100):
        producer.produce("t", b"value %d" % number)
    assert producer.flush() == 0
    fetched = fetch(client)
    headers = list(iter_headers(fetched.records))
    assert headers[-1].next_offset == fetched.high_watermark == fetched.last_stable_offset == 100
    assert {header.codec for header in headers} == {3}


def test_an_offset_that_is_not_there_is_the_caller_s_to_judge(client: WireClient, connection: Connection) -> None:
    create(connection)
    assert fetch(client, offset=7).error == ErrorCode.OFFSET_OUT_OF_RANGE


def test_log_starts_are_moved(client: WireClient, connection: Connection) -> None:
    create(connection)
    client.import_batches({PART: batch(0, b"a", b"b")})
    client.delete_records({PART: 1})
    assert client.list_offsets([PART], EARLIEST) == {PART: 1}
    with pytest.raises(BrokerError, match="the log start of t-0: OFFSET_OUT_OF_RANGE"):
        client.delete_records({PART: 9})


def test_a_topic_that_does_not_exist(client: WireClient) -> None:
    with pytest.raises(TopicGoneError, match="there is no topic 't'"):
        fetch(client)
    assert client.topics(["t"]) == {}


def test_a_topic_that_was_created_again_is_another_one(client: WireClient, connection: Connection) -> None:
    create(connection)
    fetch(client)
    admin = AdminClient(connection.for_librdkafka())
    admin.delete_topics(["t"])["t"].result()
    create(connection)
    for _ in range(2):
        with pytest.raises(TopicGoneError, match="created again"):
            fetch(client)
    with WireClient(connection) as other:
        assert fetch(other).error == 0


def test_a_connection_that_ended_is_made_again(
    client: WireClient, connection: Connection, made: list[socket.socket]
) -> None:
    create(connection)
    fetch(client)
    before = len(made)
    for one in made:
        one.shutdown(socket.SHUT_RDWR)
    assert fetch(client).error == 0
    assert 0 < before < len(made)


def test_leaders_are_looked_up_again_after_a_lost_connection(
    client: WireClient, connection: Connection, made: list[socket.socket]
) -> None:
    create(connection)
    client.import_batches({PART: batch(0, b"a")})
    admin = AdminClient(connection.for_librdkafka())
    admin.create_partitions([NewPartitions("t", 2)])["t"].result()
    assert len(client.topic("t").leaders) == 1
    for one in made:
        one.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionLostError):
        client.import_batches({PART: batch(1, b"b")})
    assert len(client.topic("t").leaders) == 2


def test_a_broker_that_is_not_there() -> None:
    with WireClient(Connection("127.0.0.1:1", timeout_s=0.2)) as client, pytest.raises(ConnectionLostError):
        client.topics()


def test_the_coordinator_is_asked_at_the_address_that_comes_with_it(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = WireClient.request

    def request(client: WireClient, message: Message, response: type[Message], *others: Any) -> Message:
        answer = ask(client, message, response, *others)
        return replace(answer, node_id=9) if isinstance(answer, FindCoordinatorResponse) else answer

    monkeypatch.setattr(WireClient, "request", request)
    create(connection)
    with WireClient(replace(connection, timeout_s=1.0)) as client:
        WireGroups(client).commit("g", {PART: 3})
        assert WireGroups(client).committed("g") == {PART: 3}
        assert client.nodes() == [1, 9]


def test_a_broker_that_the_metadata_no_longer_has_counts_as_lost(client: WireClient) -> None:
    with pytest.raises(ConnectionLostError, match="broker 9 is not in the cluster's metadata"):
        client.request(ListGroupsRequest(), ListGroupsResponse, 9)


def test_apis_that_are_known(client: WireClient) -> None:
    assert client.has_api(ApiKey.IMPORT_BATCHES)
    assert client.has_api(ApiKey.FETCH)


def test_errors_have_kafkas_names() -> None:
    assert [error_name(code) for code in (1, 4711)] == ["OFFSET_OUT_OF_RANGE", "error 4711"]
