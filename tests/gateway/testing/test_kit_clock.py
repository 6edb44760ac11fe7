"""`advance`: what becomes due meanwhile is done when it returns, and clients notice it as after that time."""

import threading
from itertools import pairwise

import pytest
import trio
import trio.testing
from gateway_client import RawClient, batch_of, fetch_request
from gateway_groups import commit_error, committed, described, find, joined
from gateway_transactions import Transactional, stable_and_aborted

from odradek import broker
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.testing.kit.clock import MOST_STEPS, Clock
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

HOUR_MS = 3_600_000


@pytest.fixture
def kafka():
    """A broker that closes no idle connection, as raw clients do not connect again."""
    with broker(config={"connections.max.idle.ms": -1}) as running:
        yield running


@pytest.fixture
def client(kafka):
    with RawClient((kafka.host, kafka.port)) as client:
        yield client


def start_of(client, topic):
    return client.end_offset(topic, timestamp=-2)


def test_retention_deletes_segments_whose_time_has_come(kafka, client):
    kafka.create_topic("t", configs={"retention.ms": HOUR_MS, "segment.ms": HOUR_MS // 6})
    for value in (b"old", b"new"):
        client.produce("t", batch_of(value, timestamp_ms=kafka.now_ms))
        kafka.advance(minutes=40)
    assert (start_of(client, "t"), client.end_offset("t")) == (1, 2)
    kafka.advance(hours=1)
    assert start_of(client, "t") == client.end_offset("t") == 2


def test_nothing_is_deleted_before_its_time(kafka, client):
    kafka.create_topic("t", configs={"retention.ms": HOUR_MS})
    client.produce("t", batch_of(b"a", timestamp_ms=kafka.now_ms))
    kafka.advance(minutes=59)
    assert start_of(client, "t") == 0


def test_a_member_that_is_silent_leaves_its_group(kafka, client):
    find(client, "g")
    joined(client, "g", session_timeout_ms=30_000)
    kafka.advance(seconds=29)
    assert len(described(client, "g").members) == 1
    kafka.advance(seconds=2)
    assert described(client, "g").members == ()


def test_a_transaction_is_aborted_by_its_timeout(kafka, client):
    kafka.create_topic("t", configs={"retention.ms": -1})
    producer = Transactional(client, "payments", timeout_ms=60_000)
    producer.add("t", 0)
    assert producer.write("t", b"x") == 0
    kafka.advance(seconds=55)
    assert (producer.state(), client.fetch("t", isolation_level=1).last_stable_offset) == ("Ongoing", 0)
    kafka.advance(seconds=30)
    assert (producer.state(), stable_and_aborted(client, "t")) == ("CompleteAbort", (2, [0]))


def test_committed_offsets_expire(kafka, client):
    kafka.create_topic("t")
    find(client, "g")
    assert commit_error(client, "g", 5) == 0
    kafka.advance(days=6)
    assert committed(client, "g") == {("t", 0): 5}
    kafka.advance(days=2)
    assert committed(client, "g") == {}


def test_producers_expire(kafka, client):
    def producers():
        [topic] = client.call(DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))).topics
        return len(topic.partitions[0].active_producers)

    kafka.create_topic("t")
    client.produce("t", batch_of(b"x", timestamp_ms=kafka.now_ms, producer_id=7, producer_epoch=0, base_sequence=0))
    kafka.advance(hours=23)
    assert producers() == 1
    kafka.advance(hours=2)
    assert producers() == 0


def test_a_waiting_fetch_returns(kafka, client):
    kafka.create_topic("t")
    sent = client.send(fetch_request("t", [(0, 0)], max_wait_ms=300_000))
    client.set_timeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive(sent)
    client.set_timeout(30)
    kafka.advance(minutes=5)
    assert client.receive(sent).responses[0].partitions[0].error_code == 0


def test_an_idle_connection_is_closed():
    with broker() as kafka, RawClient((kafka.host, kafka.port)) as client:
        kafka.advance(minutes=9)
        client.call(ApiVersionsRequest(), 0)
        kafka.advance(minutes=9)
        client.call(ApiVersionsRequest(), 0)
        kafka.advance(minutes=11)
        assert client.is_closed_by_broker()


def test_log_append_time_is_the_brokers(kafka, client):
    kafka.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    began_ms = kafka.now_ms
    client.produce("t", batch_of(b"x"))
    kafka.advance(days=3)
    client.produce("t", batch_of(b"y"))
    [(first, _), (second, _)] = client.fetch_all("t")
    assert began_ms <= first.max_timestamp <= second.max_timestamp - 72 * HOUR_MS
    assert second.max_timestamp <= kafka.now_ms


def test_time_passes_for_a_stopped_broker_and_a_restart_keeps_it(tmp_path):
    with broker(tmp_path / "data") as kafka:
        kafka.create_topic("t", configs={"retention.ms": HOUR_MS})
        with RawClient((kafka.host, kafka.port)) as client:
            client.produce("t", batch_of(b"x", timestamp_ms=kafka.now_ms))
        stopped_ms = kafka.now_ms
        kafka.stop()
        kafka.advance(hours=2)
        kafka.start()
        assert kafka.now_ms >= stopped_ms + 2 * HOUR_MS
        kafka.advance(minutes=6)  # the first search for old segments
        with RawClient((kafka.host, kafka.port)) as client:
            assert start_of(client, "t") == 1


def test_time_does_not_go_back(kafka):
    with pytest.raises(ValueError, match="back"):
        kafka.advance(hours=1, minutes=-61)
    assert kafka.clock.ahead_ms == 0


def test_it_may_be_called_inside_a_trio_run():
    async def main():
        async with broker() as kafka:
            kafka.clock.advance(hours=1)
            return kafka.clock.ahead_ms

    assert trio.run(main) == HOUR_MS


def test_clients_that_keep_the_broker_busy_do_not_hold_it_up(kafka):
    kafka.create_topic("t")
    is_over = threading.Event()

    def produce():
        with RawClient((kafka.host, kafka.port)) as client:
            while not is_over.is_set():
                assert client.produce("t", batch_of(b"x", timestamp_ms=kafka.now_ms)).error_code == 0

    thread = threading.Thread(target=produce)
    thread.start()
    kafka.advance(minutes=10)
    is_over.set()
    thread.join()
    assert kafka.clock.ahead_ms == 600_000


# The clock alone


def passing(clock, passing, *tasks):
    """Runs `tasks` in a loop with the clock, and lets time pass in it."""

    async def main():
        environment = clock.around(ProductionEnvironment(threads=1))
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task, environment)
            await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(lambda: clock.advance(**passing))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)


def test_a_periodic_task_runs_as_often_as_it_should():
    ticks = []

    async def tick(environment):
        while True:
            await trio.sleep(60)
            ticks.append(environment.monotonic_ms())

    passing(Clock(), {"hours": 1}, tick)
    assert len(ticks) in (59, 60)
    apart = [after - before for before, after in pairwise(ticks)]
    assert min(apart) >= 60_000
    assert sum(apart) < 61 * 60_000


def test_a_long_time_has_a_bounded_number_of_steps():
    ticks = []

    async def tick(_environment):
        while True:
            await trio.sleep(1)
            ticks.append(trio.current_time())

    passing(Clock(), {"days": 365}, tick)
    assert MOST_STEPS * 0.9 < len(ticks) <= MOST_STEPS + 1
    assert ticks[-1] - ticks[0] > 364 * 86_400


def test_a_blocking_call_under_way_is_awaited_so_it_does_not_time_out():
    """The call ends while time passes; a jump past its time-out would have come first."""
    outcomes, may_end = [], threading.Event()

    async def commit(environment):
        with trio.move_on_after(5) as scope:
            await environment.run_blocking(lambda: may_end.wait(30))
            await trio.lowlevel.checkpoint()
        outcomes.append(scope.cancelled_caught)

    async def end_it(_environment):
        await trio.sleep(0.05)
        may_end.set()

    passing(Clock(), {"minutes": 1}, commit, end_it)
    assert outcomes == [False]
