"""Brokers with a low limit on open files: they refuse connections before logs, log the reason, and lose nothing."""

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_client import RawClient, assert_serves, batch_of, fetch_request
from limited_broker import MB, LimitedBroker, lines_with
from long_form import LONG_TURN_MS, rounds

IDLE = 300


def connect_idle(broker, count, stack):
    """Opens `count` idle connections; returns those that the broker keeps. The last one must be refused."""
    clients = [stack.enter_context(RawClient(broker.address)) for _ in range(count)]
    assert clients.pop().is_closed_by_broker()  # hence all earlier ones were accepted or refused
    return [client for client in clients if not is_closed_now(client)]


def await_served(broker):
    """Retries, since new connections are refused until the broker has noticed that the others are closed."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return assert_serves(broker.address)
        except (ConnectionError, EOFError):
            assert time.monotonic() < deadline, "connections are refused though the others have left"


def is_closed_now(client):
    client.set_timeout(0)
    try:
        return client.is_closed_by_broker()
    except BlockingIOError:
        return False


def test_three_hundred_idle_connections_under_256_files(tmp_path):
    """New connections are refused while logs can still be opened; the broker serves all once idle clients leave."""
    with (
        LimitedBroker(tmp_path / "data", nofile=256) as broker,
        RawClient(broker.address) as working,
        ExitStack() as crowd,
    ):
        working.create_topic("t", partitions=40)
        kept = connect_idle(broker, IDLE, crowd)
        assert 60 < len(kept) < 200
        for partition in range(40):  # none of these logs has been opened yet
            assert working.produce("t", batch_of(b"%d" % partition), partition).error_code == 0
        assert [working.values("t", partition) for partition in range(40)] == [[b"%d" % n] for n in range(40)]
        crowd.close()
        await_served(broker)
        refusals = lines_with(broker, "connections are refused", "ulimit -n", "max.connections")
        assert len(refusals) == 1
        assert len(lines_with(broker, "may have 256 open files", "max.connections")) == 1
        assert lines_with(broker, "level=ERROR") == refusals
        assert "Traceback" not in broker.log()
        assert broker.terminate() == 0
    with LimitedBroker(tmp_path / "data") as again, RawClient(again.address) as client:
        assert [client.values("t", partition) for partition in range(40)] == [[b"%d" % n] for n in range(40)]


@pytest.mark.torture
def test_many_more_logs_than_files(tmp_path):
    """Every log is written, read and written again, while only a fraction of the logs can be open."""
    partitions = rounds(300, 9_998)  # with the topic and its setting, the most records of one operation
    files = rounds(192, 20_000)
    long_turn = ("--set", f"odradek.loop.stall.warn.ms={LONG_TURN_MS}")
    with LimitedBroker(tmp_path / "data", *long_turn, nofile=files) as broker, RawClient(broker.address) as client:
        client.set_timeout(120)
        client.create_topic("t", partitions=partitions, retention_ms="-1")
        for value in (b"one", b"two"):
            for partition in range(partitions):
                assert client.produce("t", batch_of(value), partition).error_code == 0
        assert broker.open_files() < files // 4 + 48
        for partition in range(partitions):
            assert client.values("t", partition) == [b"one", b"two"]
        assert broker.open_files() < files // 4 + 48
        print(f"{partitions} partitions: {report(broker)}")
        assert lines_with(broker, "level=ERROR") == []
        broker.kill()
    with LimitedBroker(tmp_path / "data", nofile=files) as broker, RawClient(broker.address) as client:
        for partition in range(0, partitions, 7):
            assert client.values("t", partition) == [b"one", b"two"]


def report(broker):
    return (
        f"memory {broker.memory_bytes() // MB} MB, files {broker.open_files()}, "
        f"address space {broker.address_space_bytes() // MB} MB"
    )


@pytest.mark.torture
def test_memory_files_and_address_space_fall_back_when_logs_are_idle(tmp_path):
    partitions = rounds(200, 2000)
    settings = ("--set", "odradek.log.idle.close.ms=200")
    with LimitedBroker(tmp_path / "data", *settings) as broker, RawClient(broker.address) as client:
        client.create_topic("t", partitions=partitions, retention_ms="-1")
        for partition in range(partitions):
            assert client.produce("t", batch_of(b"x"), partition).error_code == 0
        while open_segments(broker) > 8:  # those of the metadata log and the last ones written
            assert_serves(broker.address)
        assert client.values("t", 0) == [b"x"]
        assert client.produce("t", batch_of(b"y"), 0).base_offset == 1


def open_segments(broker):
    """The number of mapped segments of the process."""
    maps = Path(f"/proc/{broker.process.pid}/maps").read_text()
    return len(re.findall(r"\.lmdb$", maps, re.MULTILINE))


def test_a_waiting_fetch_is_woken_though_the_log_was_closed_meanwhile(tmp_path):
    """Closing the files loses neither the long poll nor the state of an idempotent producer."""
    settings = ("--set", "odradek.log.max.open.files=8")
    with (
        LimitedBroker(tmp_path / "data", *settings) as broker,
        RawClient(broker.address) as client,
        RawClient(broker.address) as waiting,
    ):
        client.create_topic("t", partitions=20)
        assert client.produce("t", batch_of(b"0"), 0).error_code == 0
        sent = waiting.send(fetch_request("t", [(0, 1)], max_wait_ms=100_000))
        for partition in range(1, 20):
            assert client.produce("t", batch_of(b"x"), partition).error_code == 0
        assert client.produce("t", batch_of(b"1"), 0).base_offset == 1
        [answered] = waiting.receive(sent).responses
        assert answered.partitions[0].high_watermark == 2
        assert bytes(answered.partitions[0].records)
