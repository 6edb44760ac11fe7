"""A disk that a test fills or slows down, as clients notice it."""

import threading

import pytest
from gateway_client import RawClient, batch_of, produce_request

import odradek
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture(params=["memory://", "lmdb", "sqlite"])
def broker(request, tmp_path):
    storage = {"lmdb": str(tmp_path / "data"), "sqlite": f"sqlite:///{tmp_path / 'data.db'}"}
    with odradek.broker(storage.get(request.param, request.param)) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def client(broker):
    with RawClient((broker.host, broker.port)) as connected:
        yield connected


def until_taken(client, topic, value):
    while client.produce(topic, batch_of(value)).error_code:
        pass


def test_a_full_disk_takes_no_records_and_serves_what_it_has(broker, client):
    assert client.produce("t", batch_of(b"before")).error_code == 0
    with broker.disk.full():
        assert broker.disk.is_full
        assert client.produce("t", batch_of(b"lost")).error_code == STORAGE_ERROR
        assert client.produce("t", batch_of(b"lost")).error_code == STORAGE_ERROR
        assert client.values("t") == [b"before"]
    until_taken(client, "t", b"after")
    assert client.values("t") == [b"before", b"after"]
    assert broker.disk.failed_writes >= 1


def test_topics_can_be_deleted_on_a_full_disk(broker, client):
    client.produce("t", batch_of(b"x"))
    broker.disk.fill()
    [deleted] = client.call(DeleteTopicsRequest(topic_names=("t",), timeout_ms=10_000)).responses
    assert deleted.error_code == 0
    broker.disk.free()
    broker.create_topic("t")
    until_taken(client, "t", b"new")
    assert client.values("t") == [b"new"]


@pytest.mark.parametrize("broker", ["lmdb", "sqlite"], indirect=True)
def test_a_full_disk_outlives_a_restart(broker):
    with RawClient((broker.host, broker.port)) as client:
        client.produce("t", batch_of(b"x"))
    broker.disk.fill()
    broker.restart()
    with RawClient((broker.host, broker.port)) as client:
        assert client.produce("t", batch_of(b"y")).error_code == STORAGE_ERROR
        assert client.values("t") == [b"x"]


def test_a_slow_disk_delays_the_reply_and_nothing_else(broker, client):
    answered = threading.Event()

    def produce():
        with RawClient((broker.host, broker.port)) as producer:
            assert producer.produce("t", batch_of(b"slow")).error_code == 0
            answered.set()

    with broker.disk.slow(3600):
        producing = threading.Thread(target=produce)
        producing.start()
        assert not answered.wait(0.2)
        assert client.values("t") == []
    producing.join(30)
    assert answered.is_set()
    assert client.values("t") == [b"slow"]


def test_restore_ends_everything(broker, client):
    broker.disk.fill()
    broker.disk.restore()
    sent = client.send(produce_request("t", batch_of(b"x")))
    assert client.receive(sent).responses[0].partition_responses[0].error_code == 0
