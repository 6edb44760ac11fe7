"""A broker whose logs are in a database: everything is there after a restart, and after the database was down."""

import pytest
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of
from gateway_groups import commit_error, committed, find
from gateway_transactions import Transactional, stable_and_aborted

from odradek.wire.errors import ErrorCode
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

FAST = ("--set", "odradek.log.retry.backoff.max.ms=50")


@pytest.fixture(params=["sqlite", "postgres"])
def broker(request, tmp_path):
    """A broker over each kind of database."""
    url = f"sqlite://{tmp_path}/store.db" if request.param == "sqlite" else request.getfixturevalue("postgres")
    broker = ProcessBroker(tmp_path / "data", *FAST, storage=url)
    broker.start()
    yield broker
    if broker.process is not None:
        assert broker.terminate() == 0
    assert "Traceback" not in broker.log()


def until_taken(attempt):
    """Retries as a client does, until success."""
    while (error := attempt()) != 0:
        assert error in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT}, ErrorCode(error)


def test_records_groups_and_transactions_outlive_the_process(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t", 3)
        for value in (b"one", b"two"):
            assert client.produce("t", batch_of(value)).error_code == 0
        find(client, "g")
        assert commit_error(client, "g", 2) == 0
        ended = Transactional(client, "ended")
        ended.add("t", 1)
        ended.write("t", b"aborted", partition=1)
        ended.end(committed=False)
        ended.settle()
        before = stable_and_aborted(client, "t", 1)
    broker.kill()
    broker.start()
    with RawClient(broker.address) as client:
        assert client.values("t") == [b"one", b"two"]
        find(client, "g")
        assert committed(client, "g")["t", 0] == 2
        assert stable_and_aborted(client, "t", 1) == before
        assert client.produce("t", batch_of(b"three")).error_code == 0
        assert client.values("t") == [b"one", b"two", b"three"]


@pytest.mark.parametrize("broker", ["postgres"], indirect=True)
def test_while_the_database_is_away_nothing_is_acknowledged_and_then_all_goes_on(broker, postgres_server):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        assert client.produce("t", batch_of(b"before")).error_code == 0
        postgres_server.kill()
        try:
            for _ in range(5):
                assert client.produce("t", batch_of(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            postgres_server.start()
        until_taken(lambda: client.produce("t", batch_of(b"after")).error_code)
        assert client.values("t") == [b"before", b"after"]
    lines = [line for line in broker.log().splitlines() if "t-0" in line]
    assert len([line for line in lines if "commit failed" in line]) == 1
    assert len([line for line in lines if "loaded again" in line]) == 1


def test_a_second_broker_is_refused(broker, tmp_path):
    second = ProcessBroker(tmp_path / "second", storage=broker.storage)
    with pytest.raises(AssertionError, match="is in use by another broker"):
        second.start()
    second.end(9)
