"""Clients that are idle, read nothing, are too many or leave: bounded, logged, and without effect on others."""

import logging
import resource
import socket
import struct
from collections import Counter
from itertools import count

import pytest
import trio
from gateway_brokers import ProcessBroker, ThreadBroker, free_port, logged
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_request

from odradek.gateway.server.context import TURN_EVERY
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.wire.headers import encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata import MetadataRequest

MB = 1 << 20
FOREVER_MS = 2**31 - 1


def ask(client):
    assert client.call(ApiVersionsRequest(), 0).error_code == 0


# Idle connections


def test_an_idle_connection_is_closed_after_connections_max_idle_ms(broker_log):
    with ThreadBroker(connections_max_idle_ms=300) as broker, RawClient(broker.address) as silent:
        assert silent.is_closed_by_broker()
        assert logged(broker_log, logging.INFO, silent.peer, "idle (connections.max.idle.ms)")
        assert_serves(broker.address)


def test_a_connection_with_half_a_frame_is_closed_too(broker_log):
    with ThreadBroker(connections_max_idle_ms=300) as broker, RawClient(broker.address) as silent:
        silent.send_bytes(struct.pack(">i", 90 * MB) + b"half")
        assert silent.is_closed_by_broker()
        assert logged(broker_log, logging.INFO, silent.peer, "idle (connections.max.idle.ms)")


def test_a_connection_with_requests_is_not_idle(broker_log):
    with (
        ThreadBroker(connections_max_idle_ms=1000) as broker,
        RawClient(broker.address) as talking,
        RawClient(broker.address) as silent,
    ):
        silent.set_timeout(0.1)
        for _ in range(300):
            ask(talking)
            try:
                assert silent.is_closed_by_broker()
            except TimeoutError:
                continue
            break
        else:
            pytest.fail("the silent one was never closed")
        ask(talking)


def in_virtual_time(talk, **config):
    """Runs `talk(transport)` with a connection to a broker, in virtual time; returns its result."""

    async def main():
        world = World(1)
        settings = {name.replace("_", "."): str(value) for name, value in config.items()}
        host = BrokerHost(world, "broker", settings=settings)
        async with trio.open_nursery() as nursery:
            host.start(nursery)
            await host.ready()
            transport = await world.environment("client").dial("broker", 9092)
            result = await talk(transport)
            nursery.cancel_scope.cancel()
        return result

    return run_virtually(1, main)


async def received(transport, size):
    """`size` bytes, or fewer if the broker has closed the connection."""
    data = bytearray(size)
    end = 0
    while end < size and (some := await transport.receive_into(memoryview(data)[end : end + 40_000])):
        end += some
    return bytes(data[:end])


async def answered(transport, request, version):
    await transport.send_parts([encode_request(request, version, 1, "raw")])
    (size,) = struct.unpack(">i", await received(transport, 4))
    return await received(transport, size)


@pytest.mark.parametrize("unlimited", [-1, -(2**63)])
def test_an_idle_time_below_zero_means_none(broker_log, unlimited):
    async def talk(transport):
        await trio.sleep(80_000)
        return await answered(transport, ApiVersionsRequest(), 0)

    assert in_virtual_time(talk, connections_max_idle_ms=unlimited)


# Clients that do not read


async def asked_for_much(transport):
    """Creates a topic with 7 MB and fetches all of it in one request; returns the length of the answer."""
    topic = CreatableTopic(name="big", num_partitions=1, replication_factor=-1)
    await answered(transport, CreateTopicsRequest(topics=(topic,)), 7)
    for _ in range(8):
        await answered(transport, produce_request("big", batch_of(b"x" * 900_000)), 9)
    request = fetch_request("big", [(0, 0)], partition_max_bytes=8 * MB)
    await transport.send_parts([encode_request(request, 12, 9, "raw")])
    (size,) = struct.unpack(">i", await received(transport, 4))
    assert size > 7_000_000
    return size


def test_a_client_that_reads_slowly_is_served_to_the_end(broker_log):
    """A reply may take longer than the write time-out as long as some of it is received within each."""

    async def talk(transport):
        size = await asked_for_much(transport)
        began = trio.current_time()
        for _ in range(0, size, 40_000):
            await trio.sleep(5)
            size -= len(await received(transport, min(size, 40_000)))
        assert trio.current_time() - began > 10 * 60
        return size

    assert in_virtual_time(talk, odradek_connection_write_timeout_ms=60_000, connections_max_idle_ms=120_000) == 0


def test_a_client_that_stops_reading_is_closed_after_the_write_timeout(broker_log):
    async def talk(transport):
        size = await asked_for_much(transport)
        await trio.sleep(100)
        return size, await received(transport, size)

    size, data = in_virtual_time(talk, odradek_connection_write_timeout_ms=60_000)
    assert len(data) < size
    assert logged(broker_log, logging.INFO, "client:", "odradek.connection.write.timeout.ms")


def test_a_tcp_client_that_reads_nothing_is_closed_too(broker_log):
    with ThreadBroker(odradek_connection_write_timeout_ms=300) as broker, RawClient(broker.address) as client:
        client.create_topic("big")
        client.produce("big", batch_of(b"x" * 900_000))
        stuck = RawClient(broker.address, receive_buffer=4096)
        for _ in range(40):
            stuck.send(fetch_request("big", [(0, 0)]))
        while not logged(broker_log, logging.INFO, stuck.peer, "odradek.connection.write.timeout.ms"):
            ask(client)
        left = 0
        while size := stuck.receive_some(MB):
            left += size
        assert left < 40 * 900_000
        stuck.close()


def test_memory_stays_bounded_when_no_client_reads(tmp_path):
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("big")
            for _ in range(50):
                assert client.produce("big", batch_of(b"x" * 1_000_000)).error_code == 0
        before = broker.memory_bytes()
        stuck = [RawClient(broker.address, receive_buffer=4096) for _ in range(40)]
        for one in stuck:
            for _ in range(50):
                one.send(fetch_request("big", [(0, 0)], partition_max_bytes=50 * MB))
        assert_serves(broker.address)
        assert broker.memory_bytes() - before < 30 * MB  # 100 GB were requested
        for one in stuck:
            one.close()
        assert_serves(broker.address)


def test_memory_stays_bounded_when_much_is_announced(tmp_path):
    """Memory grows with the bytes received, not with the announced length."""
    with ProcessBroker(tmp_path / "data") as broker:
        assert_serves(broker.address)
        before = broker.memory_bytes()
        clients = [RawClient(broker.address) for _ in range(100)]
        for one in clients:
            one.send_bytes(struct.pack(">i", 100 * MB) + bytes(10_000))
        for one in clients:
            one.finish_sending()
            assert one.is_closed_by_broker()
            one.close()
        assert broker.memory_bytes() - before < 30 * MB


# In flight


def test_requests_in_flight_are_bounded_and_answered_in_order(broker_log):
    with ThreadBroker(odradek_connection_max_in_flight_requests=4) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"opens the log"))
        replica = broker.broker.services.replicas.get("t", 0)
        broker.env.hold()
        sent = [client.send(produce_request("t", batch_of(b"%d" % n))) for n in range(50)]
        broker.env.await_held()
        assert_serves(broker.address)
        assert_serves(broker.address)  # by now the broker has had all of the first client's bytes for a while
        assert broker.in_trio(lambda: replica.log.log_end_offset) <= 1 + 4 + 1
        broker.env.release()
        assert [only(client.receive(one)).base_offset for one in sent] == list(range(1, 51))


def test_producers_wait_while_too_much_waits_for_the_disk(broker_log):
    with ThreadBroker(odradek_commit_max_pending_bytes=1000) as broker, RawClient(broker.address) as first:
        first.create_topic("a")
        first.create_topic("b")
        for name in "ab":
            first.produce(name, batch_of(b"opens the log"))
        replica = broker.broker.services.replicas.get("b", 0)
        broker.env.hold()
        held = first.send(produce_request("a", batch_of(b"x" * 2000)))
        broker.env.await_held()
        others = [RawClient(broker.address) for _ in range(5)]
        waiting = [other.send(produce_request("b", batch_of(b"y"))) for other in others]
        assert_serves(broker.address)
        assert_serves(broker.address)
        assert broker.in_trio(lambda: replica.log.log_end_offset) == 1
        broker.env.release()
        assert only(first.receive(held)).error_code == 0
        answers = [only(other.receive(one)) for other, one in zip(others, waiting, strict=True)]
        assert sorted(answer.base_offset for answer in answers) == [1, 2, 3, 4, 5]
        for other in others:
            other.close()


@pytest.mark.parametrize("storage", ["memory", "lmdb"])
def test_sixteen_partitions_pipelined_come_back_unharmed(tmp_path, broker_log, storage):
    """Regression: a receive buffer that is reused under a pending commit silently corrupts batches."""
    url = "memory://" if storage == "memory" else f"lmdb://{tmp_path}/data"
    with ThreadBroker(url) as broker, RawClient(broker.address) as client:
        client.create_topic("wide", partitions=16)
        values = {(n, part): b"%d.%d." % (n, part) * (50 + 997 * part) for n in range(16) for part in range(16)}
        broker.env.hold() if storage == "memory" else None
        sent = []
        for (_, part), value in values.items():
            sent.append(client.send(produce_request("wide", batch_of(value), part)))
            if len(sent) == 40:
                broker.env.release()
        answers = [only(client.receive(one)) for one in sent]
        assert [(one.error_code, one.index, one.base_offset) for one in answers] == [(0, part, n) for n, part in values]
        for part in range(16):
            assert client.values("wide", part) == [values[n, part] for n in range(16)]


def test_other_requests_wait_for_the_produces_before_them(broker_log):
    """A ListOffsets behind a produce on one connection includes what was produced."""
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        sent = [client.send(produce_request("t", batch_of(b"%d" % n))) for n in range(16)]
        fetched = client.send(fetch_request("t", [(0, 15)], max_wait_ms=FOREVER_MS))
        assert [only(client.receive(one)).base_offset for one in sent] == list(range(16))
        [answered] = client.receive(fetched).responses
        assert answered.partitions[0].high_watermark == 16


class _Steps(trio.abc.Instrument):
    """Counts the steps of each task: between two of them every connection is served."""

    def __init__(self):
        self.taken = Counter()

    def after_task_step(self, task):
        self.taken[task] += 1


@pytest.mark.parametrize(("there", "number", "passes"), [(True, 5_000, 2), (False, 50_000, 1)])
def test_a_fetch_of_very_many_partitions_does_not_hold_up_the_others(broker_log, there, number, passes):
    """All partitions are looked up, and the existing ones are read."""
    with ThreadBroker() as broker, RawClient(broker.address) as greedy:
        greedy.create_topic("t", number if there else 1)
        wanted = [(n, 0) for n in range(number)]
        if there:
            greedy.call(fetch_request("t", wanted))  # this opens the logs
        steps = _Steps()
        broker.in_trio(lambda: trio.lowlevel.add_instrument(steps))
        [answered] = greedy.call(fetch_request("t", wanted)).responses
        assert len(answered.partitions) == number
        assert max(steps.taken.values()) >= passes * (number // TURN_EVERY)


# Too many connections


def test_connections_beyond_max_connections_wait(broker_log):
    """As in Kafka, new connections wait at max.connections; they are not refused."""
    with (
        ThreadBroker(max_connections=2) as broker,
        RawClient(broker.address) as first,
        RawClient(broker.address) as second,
    ):
        ask(first)
        ask(second)
        with RawClient(broker.address) as third:
            sent = third.send(ApiVersionsRequest(), 0)
            while not logged(broker_log, logging.WARNING, third.peer, "2 connections are open (max.connections)"):
                ask(first)  # the broker accepts the third connection before or after this request
                ask(second)
            first.close()
            assert third.receive(sent).error_code == 0


def test_a_raised_limit_accepts_waiting_connections(broker_log):
    with ThreadBroker(max_connections=1) as broker, RawClient(broker.address) as first:
        ask(first)
        with RawClient(broker.address) as second:
            sent = second.send(ApiVersionsRequest(), 0)
            ask(first)
            config = AlterableConfig(name="max.connections", config_operation=0, value="2")
            resource_ = AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
            [altered] = first.call(IncrementalAlterConfigsRequest(resources=(resource_,))).responses
            assert altered.error_code == 0, altered
            assert second.receive(sent).error_code == 0


def test_a_broker_that_stops_closes_waiting_connections(broker_log):
    with ThreadBroker(max_connections=1) as broker:
        with RawClient(broker.address) as first, RawClient(broker.address) as waiting:
            ask(first)
            broker.begin_stop()
            broker.join()
            assert first.is_closed_by_broker()
            assert waiting.is_closed_by_broker()
        broker.start()


def test_connections_beyond_the_limit_per_address_are_closed(broker_log):
    with ThreadBroker(max_connections_per_ip=2) as broker:
        with RawClient(broker.address) as first, RawClient(broker.address) as second:
            ask(first)
            ask(second)
            with RawClient(broker.address) as third:
                assert third.is_closed_by_broker()
                assert logged(
                    broker_log, logging.WARNING, third.peer, "2 connections from there (max.connections.per.ip)"
                )
        with RawClient(broker.address) as later:
            later.set_timeout(30)
            ask_until_let_in(broker, later)


def ask_until_let_in(broker, client):
    """Retries, since the broker may not have noticed yet that others have left."""
    for _ in range(1000):
        try:
            ask(client)
        except (EOFError, OSError):
            client.close()
            client = RawClient(broker.address)
        else:
            client.close()
            return
    pytest.fail("never let in")


def test_an_address_may_have_its_own_limit(broker_log):
    with (
        ThreadBroker(max_connections_per_ip=0, max_connections_per_ip_overrides="127.0.0.1:1") as broker,
        RawClient(broker.address) as first,
    ):
        ask(first)
        with RawClient(broker.address) as second:
            assert second.is_closed_by_broker()


@pytest.fixture
def many_files():
    """Raises this process's limit of open files as far as permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_thousand_connections(tmp_path, many_files):
    """A third is idle, a third stops within a frame, a third sends requests; all stay open, and one continues."""
    with ProcessBroker(tmp_path / "data") as broker, RawClient(broker.address) as working:
        working.create_topic("t")
        offsets = count()
        assert working.produce("t", batch_of(b"x")).base_offset == next(offsets)
        before = broker.memory_bytes()
        clients = []
        for n in range(2000):
            client = RawClient(broker.address)
            clients.append(client)
            if n % 3 == 1:
                client.send_bytes(struct.pack(">i", 50 * MB) + b"half a frame")
            if n % 100 == 0:
                assert working.produce("t", batch_of(b"x")).base_offset == next(offsets)
        sent = [(client, client.send(ApiVersionsRequest(), 0)) for client in clients[2::3]]
        assert working.produce("t", batch_of(b"x")).base_offset == next(offsets)
        assert all(client.receive(one).error_code == 0 for client, one in sent)
        assert broker.memory_bytes() - before < 2000 * 50_000
        for client in clients:
            client.close()
        assert working.produce("t", batch_of(b"x")).base_offset == next(offsets)
        assert working.values("t") == [b"x"] * next(offsets)
        assert " level=WARNING" not in broker.log()


def test_running_out_of_files_is_logged_and_survived(tmp_path, many_files):
    """Connections beyond the limit are closed at once, and accepted again when others have left."""
    with ProcessBroker(tmp_path / "data") as broker, RawClient(broker.address) as working:
        working.create_topic("t")
        working.produce("t", batch_of(b"x"))
        broker.limit(resource.RLIMIT_NOFILE, 100)
        crowd = [RawClient(broker.address) for _ in range(150)]
        assert crowd[-1].is_closed_by_broker()
        assert working.produce("t", batch_of(b"x")).error_code == 0
        assert broker.log().count("raise the limit of open files, ulimit -n") == 1
        for client in crowd:
            client.close()
        ask_until_let_in(broker, RawClient(broker.address))


# Leaving in the middle


def test_a_client_that_leaves_a_long_poll_is_dropped_when_idle(broker_log):
    """A closed connection is forgotten at once, although its fetch would wait for weeks."""
    with ThreadBroker(max_connections=1, connections_max_idle_ms=300) as broker:
        with RawClient(broker.address) as leaving:
            leaving.create_topic("t")
            leaving.send(fetch_request("t", [(0, 0)], max_wait_ms=FOREVER_MS))
        assert_serves(broker.address)  # this needs the only slot
        replica = broker.broker.services.replicas.get("t", 0)
        assert broker.in_trio(lambda: len(replica.watchers)) == 0
        closed = [record for record in broker_log.records if "connections.max.idle.ms" in record.getMessage()]
        assert len(closed) == 1


def test_a_client_that_leaves_with_produces_in_flight_loses_nothing_of_others(broker_log):
    with ThreadBroker() as broker, RawClient(broker.address) as staying:
        staying.create_topic("t")
        staying.produce("t", batch_of(b"opens the log"))
        broker.env.hold()
        leaving = RawClient(broker.address)
        for n in range(10):
            leaving.send(produce_request("t", batch_of(b"left %d" % n)))
        broker.env.await_held()
        leaving.reset()
        sent = staying.send(produce_request("t", batch_of(b"stayed")))
        broker.env.release()
        assert only(staying.receive(sent)).error_code == 0
        assert staying.values("t").count(b"stayed") == 1
        assert_serves(broker.address)


def test_connections_that_come_and_go_leave_nothing_behind(tmp_path):
    with ProcessBroker(tmp_path / "data") as broker, RawClient(broker.address) as working:

        def come_and_go():
            for n in range(2000):
                passing = RawClient(broker.address)
                if n % 2:
                    ask(passing)
                passing.reset() if n % 3 else passing.close()
            assert working.call(MetadataRequest(topics=())).brokers

        come_and_go()  # the garbage collector runs twice a second: by then memory has reached its steady level
        before = broker.memory_bytes()
        come_and_go()
        assert broker.memory_bytes() - before < 2 * MB
        assert internal_errors_in(broker.log()) == []


def internal_errors_in(log):
    return [line for line in log.splitlines() if "Traceback" in line or "internal error" in line]


def test_a_port_in_use_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = ThreadBroker()
        broker.port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            broker.start()


def test_a_second_port_in_use_leaves_the_first_one_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = free_port()
        broker = ThreadBroker(
            listeners=f"A://127.0.0.1:{first},B://127.0.0.1:{taken.getsockname()[1]}",
            listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT",
            inter_broker_listener_name="A",
        )
        with pytest.raises(OSError, match="in use"):
            broker.start()
        socket.create_server(("127.0.0.1", first)).close()
