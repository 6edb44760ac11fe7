"""A cluster of real processes: brokers are killed, paused and restarted, and nothing acknowledged is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from damages import follow_advice
from gateway_client import RawClient, batch_of, only, produce_request

import odradek
from odradek.gateway.supervision.layout import NodePlan
from odradek.gateway.testing.cluster import QUICK, TestCluster, TestNode
from odradek.gateway.testing.ports import free_ports, free_ports_in_a_row
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster():
    # The records of these tests have old timestamps: without this, retention deletes them within half a minute.
    config = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500, "log.retention.ms": -1}
    with odradek.cluster(brokers=3, config=config) as running:
        yield running


def test_sessions_are_short_unless_the_test_sets_them(cluster):
    settings = cluster.node(1).plan.settings
    assert settings["controller.quorum.fetch.timeout.ms"] == "1000"
    assert settings["broker.session.timeout.ms"] == "3000"
    described = configs_of(cluster, 1)
    assert {name: described[name] for name in QUICK} == {name: settings[name] for name in QUICK}


def configs_of(cluster: TestCluster, broker_id: int) -> dict[str, str]:
    """The settings that a broker itself describes."""
    with RawClient((cluster.host, cluster.node(broker_id).plan.port)) as client:
        resource = DescribeConfigsResource(resource_type=4, resource_name=str(broker_id))
        [found] = client.call(DescribeConfigsRequest(resources=(resource,))).results
    return {config.name: config.value for config in found.configs}


class OnlyPlanned(TestCluster):
    """Starts no process."""

    planned: NodePlan

    def new_node(self, node: NodePlan, file: Path) -> TestNode:
        self.planned = node
        raise NotImplementedError


@pytest.mark.parametrize(("quick", "found"), [(True, set(QUICK)), (False, set())])
def test_without_quick_the_defaults_are_kafkas(quick, found, tmp_path):
    cluster = OnlyPlanned(1, directory=tmp_path, links=False, quick=quick)
    with pytest.raises(NotImplementedError):
        cluster.start()
    assert QUICK.keys() & cluster.planned.settings.keys() == found


def at_leader(cluster: TestCluster, topic: str) -> RawClient:
    return RawClient((cluster.host, cluster.node(cluster.leader(topic, 0)).plan.port))


def in_sync(cluster: TestCluster, topic: str, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    seen: object = None
    while time.monotonic() < deadline:
        with suppress(OSError, EOFError), at_leader(cluster, topic) as client:
            request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
            seen = client.call(request).topics[0].partitions[0].isr_nodes
            if len(seen) == count:
                return
        time.sleep(0.1)
    raise TimeoutError(f"in-sync replicas are {seen}")


def values(cluster: TestCluster, topic: str, count: int) -> set[bytes | None]:
    """The values of a topic that has exactly so many records."""
    return {each.value for each in cluster.assert_produced(topic, count=count, within=DEADLINE_S)}


def test_a_killed_leader_loses_nothing_and_comes_back(cluster):
    cluster.create_topic("killed", replication_factor=3)
    for number in range(5):
        cluster.produce("killed", b"before %d" % number)
    leader = cluster.leader("killed", 0)
    cluster.kill(leader)
    assert cluster.leader("killed", 0, not_broker=leader) != leader
    for number in range(5):
        cluster.produce("killed", b"after %d" % number)
    expected = {b"%s %d" % (when, number) for when in (b"before", b"after") for number in range(5)}
    assert values(cluster, "killed", 10) == expected
    cluster.restart(leader)
    in_sync(cluster, "killed", 3)


def test_a_paused_leader_is_replaced(cluster):
    cluster.create_topic("paused", replication_factor=3)
    cluster.produce("paused", b"before")
    leader = cluster.leader("paused", 0)
    cluster.pause(leader)
    try:
        assert cluster.leader("paused", 0, not_broker=leader) != leader
    finally:
        cluster.resume(leader)
    in_sync(cluster, "paused", 3)
    cluster.produce("paused", b"after")
    assert values(cluster, "paused", 2) == {b"before", b"after"}


def test_a_leader_that_is_cut_off_is_replaced_and_loses_nothing(cluster):
    cluster.create_topic("cut", replication_factor=3)
    cluster.produce("cut", b"before")
    leader = cluster.leader("cut", 0)
    cluster.isolate(leader)
    try:
        with RawClient((cluster.host, cluster.node(leader).plan.port)) as client:
            request = produce_request("cut", batch_of(b"to the old leader"), acks=-1, timeout_ms=500)
            assert only(client.call(request, 9)).error_code != 0
        assert cluster.leader("cut", 0, not_broker=leader) != leader
    finally:
        cluster.heal()
    cluster.produce("cut", b"after")
    in_sync(cluster, "cut", 3)
    assert values(cluster, "cut", 2) == {b"before", b"after"}


def test_a_follower_whose_requests_are_lost_leaves_the_in_sync_replicas(cluster):
    """The link is cut in one direction: the follower's requests are lost, the leader's would arrive."""
    cluster.create_topic("one-way", replication_factor=3, configs={"min.insync.replicas": 2})
    cluster.produce("one-way", b"before")
    leader = cluster.leader("one-way", 0)
    follower = next(each for each in cluster.ids if each != leader)
    for other in cluster.ids:
        if other != follower:
            cluster.partition(follower, other, one_way=True)
    try:
        in_sync(cluster, "one-way", 2)
        cluster.produce("one-way", b"meanwhile")
    finally:
        cluster.heal()
    in_sync(cluster, "one-way", 3)
    assert values(cluster, "one-way", 2) == {b"before", b"meanwhile"}


def test_a_wiped_broker_gets_everything_again(cluster):
    cluster.create_topic("wiped", replication_factor=3)
    cluster.produce("wiped", b"before")
    victim = cluster.leader("wiped", 0)
    cluster.kill(victim)
    cluster.wipe(victim)
    cluster.produce("wiped", b"meanwhile")
    cluster.restart(victim)
    in_sync(cluster, "wiped", 3)
    assert values(cluster, "wiped", 2) == {b"before", b"meanwhile"}


def test_a_leader_with_a_damaged_log_ends_and_copies_the_partition_again(cluster, tmp_path):
    cluster.create_topic("damaged", replication_factor=3)
    cluster.produce("damaged", b"before")
    victim = cluster.leader("damaged", 0)
    node = cluster.node(victim)
    (segment,) = node.plan.directory.glob("damaged-0.*/*.lmdb")
    os.truncate(segment, segment.stat().st_size // 4)
    cluster.produce("damaged", b"meanwhile")
    node.join()
    log = node.log_path.read_text("utf-8")
    last = json.loads(log.splitlines()[-1])
    assert last["message"] == "ended"
    assert "1 partitions cannot be written, the first damaged-0; others lead them" in last["cause"]
    follow_advice(log, segment.parent, tmp_path / "moved")
    cluster.restart(victim)
    in_sync(cluster, "damaged", 3)
    cluster.elect_preferred()
    assert cluster.leader("damaged", 0) == victim
    assert values(cluster, "damaged", 2) == {b"before", b"meanwhile"}


def test_preferred_leaders_are_elected_again(cluster: TestCluster):
    cluster.create_topic("spread", partitions=3, replication_factor=3)
    cluster.await_in_sync()
    before = [cluster.leader("spread", index) for index in range(3)]
    victim = before[0]
    cluster.kill(victim)
    cluster.leader("spread", 0, not_broker=victim)
    cluster.restart(victim)
    cluster.await_in_sync()
    assert cluster.leader("spread", 0) != victim
    cluster.elect_preferred()
    assert [cluster.leader("spread", index) for index in range(3)] == before
    assert set(before) == set(cluster.ids)


def test_an_election_that_lacks_a_broker_names_it(cluster: TestCluster):
    cluster.create_topic("unspread", partitions=3, replication_factor=3)
    victim = cluster.leader("unspread", 0)
    cluster.kill(victim)
    cluster.leader("unspread", 0, not_broker=victim)
    with pytest.raises(TimeoutError, match=rf"broker {victim} does not answer.*unspread-0 in the metadata of broker"):
        cluster.elect_preferred(timeout_s=1)
    cluster.restart(victim)
    cluster.await_in_sync()


def test_each_of_two_brokers_may_be_killed_though_one_is_the_only_controller():
    config = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500, "log.retention.ms": -1}
    with odradek.cluster(brokers=2, config=config, links=False) as cluster:
        cluster.create_topic("pair", partitions=2, replication_factor=2)
        cluster.await_in_sync()
        cluster.produce("pair", b"before")
        cluster.kill(2)
        for index in range(2):
            assert cluster.leader("pair", index, not_broker=2) == 1
        cluster.produce("pair", b"without 2")
        cluster.restart(2)
        cluster.await_in_sync()
        cluster.kill(1)
        cluster.restart(1)
        for index in range(2):
            assert cluster.leader("pair", index, not_broker=1) == 2, "node 1 has left the in-sync replicas"
        cluster.await_in_sync()
        cluster.produce("pair", b"after")
        cluster.restart(1)
        assert values(cluster, "pair", 3) == {b"before", b"without 2", b"after"}


@pytest.mark.processes
def test_a_controller_that_is_no_broker_serves_no_topics(tmp_path: Path):
    nodes = controller_and_brokers(tmp_path)
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.await_ready()
            with urlopen(f"http://{node.plan.settings['odradek.metrics.listen']}/health/ready") as answer:
                assert answer.status == 200, "a controller alone is ready, too"
        with RawClient(("127.0.0.1", nodes[1].plan.port)) as client:
            deadline = time.monotonic() + DEADLINE_S
            while {each.broker_id for each in client.call(DescribeClusterRequest(), 1).brokers} != {2, 3}:
                assert time.monotonic() < deadline, "a broker that is ready is soon in the others' metadata"
                time.sleep(0.1)
            wanted = [
                CreatableTopic(name=f"rf-{factor}", num_partitions=4, replication_factor=factor) for factor in (2, 3)
            ]
            answer = client.call(CreateTopicsRequest(topics=tuple(wanted)), 7)
            codes = {each.name: each.error_code for each in answer.topics}
            assert codes == {"rf-2": 0, "rf-3": ErrorCode.INVALID_REPLICATION_FACTOR}
            nodes[2].signal(signal.SIGKILL)
            nodes[2].join()
            request = MetadataRequest(topics=(MetadataRequestTopic(name="rf-2"),))
            deadline = time.monotonic() + DEADLINE_S
            while {part.leader_id for part in client.call(request).topics[0].partitions} != {2}:
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        for node in reversed(nodes):
            node.signal(signal.SIGTERM)
            node.join()


def controller_and_brokers(directory: Path) -> list[TestNode]:
    """Node 1, which is only a controller, and two brokers."""
    controller, *ports = free_ports(3)
    nodes: list[TestNode] = []
    for number, port in enumerate((controller, *ports), 1):
        is_broker = number > 1
        settings = {
            "node.id": str(number),
            "process.roles": "broker" if is_broker else "controller",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://127.0.0.1:{port}",
            "log.dirs": str(directory / f"node-{number}"),
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "odradek.metrics.listen": f"127.0.0.1:{free_ports(1)[0]}",
        }
        node = NodePlan(number, port, None if is_broker else port, directory / f"node-{number}", settings)
        node.write(directory / f"node-{number}.properties")
        nodes.append(TestNode(node, directory / f"node-{number}.properties"))
    return nodes


def test_no_node_outlives_a_supervisor_that_is_killed(tmp_path: Path):
    port = free_ports_in_a_row(10)[0]
    command = [sys.executable, "-m", "odradek", "serve", "--brokers", "2", "--data", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--listen", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    with process.stdout as output:
        assert "2 brokers at" in output.readline().decode()
    nodes = [int(found) for found in re.findall(r"node serves node_id=\d+ pid=(\d+)", (tmp_path / "log").read_text())]
    assert len(nodes) == 2
    process.kill()
    process.wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while (left := [node for node in nodes if is_there(node)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert (tmp_path / "log").read_text().count("the process that started this node has ended") == 2


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()[:1] not in ("", "Z")  # without a parent it may remain a zombie for a while


def test_serve_with_brokers_starts_the_dead_again_and_drains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Environment variables for options apply to the cluster, not to each node."""
    port = free_ports_in_a_row(10)[0]
    monkeypatch.setenv("ODRADEK_LISTEN", f"127.0.0.1:{port}")
    monkeypatch.setenv("ODRADEK_METRICS_LISTEN", f"127.0.0.1:{port + 5}")
    monkeypatch.setenv("KAFKA_NODE_ID", "7")
    monkeypatch.setenv("KAFKA_BROKER_ID", "7")
    command = [sys.executable, "-m", "odradek", "serve", "--brokers", "2", "--data", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert f"2 brokers at 127.0.0.1:{port},127.0.0.1:{port + 1}" in line
        with RawClient(("127.0.0.1", port + 1)) as client:
            client.create_topic("t")
            assert 2 in [broker.node_id for broker in client.call(MetadataRequest(topics=None)).brokers]
        for metrics in (port + 5, port + 6):
            with urlopen(f"http://127.0.0.1:{metrics}/health/ready", timeout=DEADLINE_S) as answer:
                assert answer.status == 200
        os.kill(serving_pids(tmp_path / "log", 2, 1)[0], signal.SIGKILL)
        first, second = serving_pids(tmp_path / "log", 2, 2)
        assert first != second
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
        process.stdout.close()
    logged = (tmp_path / "log").read_text()
    assert "stopping nodes=2" in logged
    assert "level=INFO node=1 logger=" in logged
    assert "level=INFO node=2 logger=" in logged
    assert "node ended node_id=2 code=-9, started again in_s=0.5" in logged


def serving_pids(log: Path, node_id: int, count: int) -> list[int]:
    """The process ids that node `node_id` has had, once there are `count` of them."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = re.findall(rf"node serves node_id={node_id} pid=(\d+)\n", log.read_text())
        if len(found) == count or time.monotonic() > deadline:
            assert len(found) == count, log.read_text()
            return [int(pid) for pid in found]
        time.sleep(0.05)


def test_each_record_is_transformed_once_though_a_coordinator_dies(cluster):
    """Consume, transform and produce in transactions; the broker that coordinates them is killed in between.

    Another broker coordinates the group: librdkafka waits without a time-out for a group coordinator that is gone, with
    any broker (https://github.com/confluentinc/librdkafka/issues/5511).
    """
    from confluent_kafka import Consumer, KafkaException, Producer

    coordinator = cluster.coordinator("x", transactional=True)
    group = next(name for name in map("g-{}".format, range(50)) if cluster.coordinator(name) != coordinator)
    count, quiet = 60, {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    for name in ("in", "out"):
        cluster.create_topic(name, 3, 3)
    source = Producer({**quiet, "enable.idempotence": True})
    for number in range(count):
        source.produce("in", str(number).encode())
    assert source.flush(DEADLINE_S) == 0
    target = Producer({**quiet, "transactional.id": "x", "transaction.timeout.ms": 30_000})
    target.init_transactions(DEADLINE_S)
    reading = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer(
        {**quiet, **reading, "group.id": group, "enable.auto.commit": False, "session.timeout.ms": 6000}
    )
    consumer.subscribe(["in"])
    done, victim, deadline = 0, 0, time.monotonic() + 2 * DEADLINE_S
    while done < count and time.monotonic() < deadline:
        records = [each for each in consumer.consume(20, 2) if each.error() is None]
        if not records:
            continue
        target.begin_transaction()
        for record in records:
            target.produce("out", record.value())
        positions = consumer.position(consumer.assignment())
        try:
            target.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), DEADLINE_S)
            target.commit_transaction(DEADLINE_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            target.abort_transaction(DEADLINE_S)  # the records come again with the next assignment
            consumer.unsubscribe()
            consumer.subscribe(["in"])
            continue
        done += len(records)
        if not victim:
            victim = cluster.coordinator("x", transactional=True)
            cluster.kill(victim)
    consumer.close()
    assert victim
    cluster.restart(victim)
    assert sorted(read("out", count, Consumer({**quiet, **reading, "group.id": "r"}))) == list(range(count))


def read(topic: str, count: int, reader) -> list[int]:
    """The numbers in a topic, once there are `count`."""
    reader.subscribe([topic])
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        record = reader.poll(1)
        if record is not None and record.error() is None:
            found.append(int(record.value()))
    reader.close()
    return found
