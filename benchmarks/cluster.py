"""Clusters of three nodes: replicated produce, latency, failover after a kill, CPU and memory of an idle cluster.

Each side is three nodes on this machine, each controller and broker, with the same properties
(`compat_tests.clusters`), three replicas and `min.insync.replicas=2`; Kafka's JVMs have a heap of 1 GB each. The CPU is
that of all nodes. The last cases compare `odradek serve --brokers 2` with one broker.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.brokers import BOTH, RunningBroker, Side
from benchmarks.cases import CPU, FLUSH_MESSAGES, KAFKA, ODRADEK, Case, Effort, Figure, Mode, NotMeasuredError
from benchmarks.cpu_limit import limited
from benchmarks.loads import run_load
from benchmarks.proc import cpu_seconds, memory_mb
from compat_tests.clusters import REPLICATED, KafkaNodes, Nodes, OdradekNodes
from compat_tests.real_kafka import UnavailableError
from odradek.gateway.testing.asking import ask
from odradek.gateway.testing.ports import free_ports_in_a_row
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, NewTopic

HEAP = "-Xmx1g -Xms1g -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20"
SETTINGS = {**REPLICATED, **BOTH, "offsets.topic.num.partitions": "10", "transaction.state.log.num.partitions": "4"}
RATE = 1000
IDLE_S = 20.0
SETTLE_S = 5.0
WARM_UP_S = 20.0
ASK_EVERY_S = 0.01
FAIL_OVER_WITHIN_S = 60.0
CONNECTIONS = 16
BROKER_CORES = 0.25
_numbers = count(1)


def nodes_of(side: Side) -> Nodes:
    """The side's three nodes, started at the first use. Raises NotMeasuredError."""
    return side.cluster(_started)


def _started(name: str) -> Nodes:
    """Start the nodes, and produce and consume for a while, so that the JVMs compile their code."""
    nodes = _program(name)
    with _topic(nodes.bootstrap, 12, Mode.PAGE_CACHE) as topic:
        arguments = {"bootstrap": nodes.bootstrap, "topic": topic, "partitions": 12}
        run_load("librdkafka", "produce", **arguments, size_bytes=1000, duration_s=2.0)
    with _topic(nodes.bootstrap, 1, Mode.PAGE_CACHE) as topic:
        run_load("librdkafka", "latency", bootstrap=nodes.bootstrap, topic=topic, rate=RATE, duration_s=WARM_UP_S)
    return nodes


def _program(name: str) -> Nodes:
    try:
        if name == ODRADEK:
            return OdradekNodes(SETTINGS)
        if name == KAFKA:
            return KafkaNodes(SETTINGS, heap=HEAP)
    except (UnavailableError, RuntimeError) as error:
        raise NotMeasuredError(str(error)[-300:]) from error
    raise NotMeasuredError(f"{name} is measured as one broker only")


def produce(side: Side, mode: Mode, effort: Effort, *, partitions: int) -> Mapping[str, float]:
    """MB a second of 1 KB records until all is acknowledged, acks=all, and the CPU seconds of all nodes per MB."""
    nodes = nodes_of(side)
    with _topic(nodes.bootstrap, partitions, mode) as topic:
        before = _cpu(nodes)
        arguments = {"bootstrap": nodes.bootstrap, "topic": topic, "partitions": partitions}
        done = run_load("librdkafka", "produce", **arguments, size_bytes=1000, duration_s=effort.duration_s)
        megabytes = done["records"] * 1000 / 1e6
        return {"rate": megabytes / done["seconds"], CPU: (_cpu(nodes) - before) / megabytes}


def end_to_end(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Milliseconds at 1,000 records of 100 B a second, acks=all, and the CPU seconds of all nodes per 1,000 records."""
    nodes = nodes_of(side)
    with _topic(nodes.bootstrap, 1, mode) as topic:
        before = _cpu(nodes)
        duration_s = effort.duration_s * 2
        done = run_load(
            "librdkafka", "latency", bootstrap=nodes.bootstrap, topic=topic, rate=RATE, duration_s=duration_s
        )
        return {"p50": done["p50"], "p99": done["p99"], CPU: (_cpu(nodes) - before) / (done["records"] / 1000)}


def fail_over(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Seconds from `kill -9` of a partition's leader to the first produce with acks=all that is acknowledged.

    This includes the broker's session timeout (`broker.session.timeout.ms`, 9 s on both sides).
    """
    del effort
    nodes = nodes_of(side)
    with _topic(nodes.bootstrap, 1, mode) as topic:
        leader = _leader(nodes, topic)
        killed_at = time.perf_counter()
        nodes.kill(leader)
        left = [number for number in nodes.nodes if number != leader]
        try:
            while not any(_is_acknowledged(nodes, number, topic) for number in left):
                if time.perf_counter() - killed_at > FAIL_OVER_WITHIN_S:
                    raise NotMeasuredError(f"no produce was acknowledged within {FAIL_OVER_WITHIN_S:.0f} s")
                time.sleep(ASK_EVERY_S)
            return {"seconds": time.perf_counter() - killed_at}
        finally:
            nodes.start(leader)
            _await(lambda: _in_sync(nodes, topic) == len(nodes.nodes), "the killed node is not in sync again")


def idle(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """CPU in % of a core, and anonymous memory in MB, of three nodes that have just started and have no clients."""
    del mode
    nodes = _program(side.name)
    try:
        seconds = IDLE_S / 4 if effort.quick else IDLE_S
        time.sleep(SETTLE_S)
        before = _cpu(nodes)
        time.sleep(seconds)
        cores = (_cpu(nodes) - before) / seconds
        return {"cores": cores * 100, "anonymous": sum([memory_mb(pid)["anonymous"] for pid in _pids(nodes)])}
    finally:
        nodes.stop()


def two_brokers(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Small synchronous requests a second of `serve --brokers 2`, as a multiple of one broker's, and the CPU.

    The load uses the same cores as the brokers, so the rate says little about them on a machine with few cores.
    """
    return _two_to_one(side, mode, effort, None)


def two_limited_brokers(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """The same with a limit to a small share of a core for each broker, so that the load has enough time of its own."""
    return _two_to_one(side, mode, effort, BROKER_CORES)


def _two_to_one(side: Side, mode: Mode, effort: Effort, cores: float | None) -> Mapping[str, float]:
    one = _synchronous(side, 1, mode, effort, cores)
    two = _synchronous(side, 2, mode, effort, cores)
    return {"rate": two["rate"], "times": two["rate"] / one["rate"], CPU: two[CPU]}


def _synchronous(side: Side, brokers: int, mode: Mode, effort: Effort, cores: float | None) -> Mapping[str, float]:
    with (
        _serving(side, brokers) as (bootstrap, pids),
        _topic(bootstrap, CONNECTIONS, mode, on=brokers) as topic,
        nullcontext() if cores is None else limited(pids, cores),
    ):
        before = sum([cpu_seconds(pid) for pid in pids])
        done = run_load(
            "raw",
            "sync",
            bootstrap=bootstrap,
            topic=topic,
            connections=CONNECTIONS,
            size_bytes=100,
            duration_s=effort.duration_s,
        )
        cpu_s = sum([cpu_seconds(pid) for pid in pids]) - before
    return {"rate": done["requests"] / done["seconds"], CPU: cpu_s / (done["all_requests"] / 1000)}


@contextmanager
def _serving(side: Side, brokers: int) -> Iterator[tuple[str, list[int]]]:
    """Run `odradek serve`, with `--brokers` for several; yields bootstrap servers and the brokers' process ids."""
    home = side.home()
    first = free_ports_in_a_row(brokers * 2)[0]
    bootstrap = ",".join([f"127.0.0.1:{first + number}" for number in range(brokers)])
    more = [] if brokers == 1 else ["--brokers", str(brokers)]
    where = ["--listen", f"127.0.0.1:{first}", "--data", str(home / "data")]
    broker = RunningBroker(
        ODRADEK, f"127.0.0.1:{first}", [sys.executable, "-m", "odradek", "serve", *where, *more], home / "serve.log"
    )
    try:
        _await(lambda: _brokers(bootstrap) == brokers, "not all brokers serve")
        yield bootstrap, [broker.pid] if brokers == 1 else _children(broker.pid)
    finally:
        broker.stop()


def _children(pid: int) -> list[int]:
    """The child processes of all threads of a process."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for thread in threads for each in (thread / "children").read_text().split()]


def _cpu(nodes: Nodes) -> float:
    return sum([cpu_seconds(pid) for pid in _pids(nodes)])


def _pids(nodes: Nodes) -> list[int]:
    return [node.daemon.process.pid for node in nodes.nodes.values() if node.daemon is not None]


@contextmanager
def _topic(bootstrap: str, partitions: int, mode: Mode, *, on: int = 0) -> Iterator[str]:
    """A new topic with three replicas; with `on`, one replica of each partition, in turn on the first `on` brokers."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = f"bench-{os.getpid()}-{next(_numbers)}"
    config = {"flush.messages": FLUSH_MESSAGES[mode]}
    if on:
        places = [[index % on + 1] for index in range(partitions)]
        wanted = NewTopic(name, num_partitions=partitions, replica_assignment=places, config=config)
    else:
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=3, config=config)
    _create(admin, wanted)
    try:
        yield name
    finally:
        for future in admin.delete_topics([name], request_timeout=20).values():
            future.exception(timeout=25)


def _create(admin: AdminClient, wanted: NewTopic) -> None:
    from confluent_kafka import KafkaException

    for future in admin.create_topics([wanted], request_timeout=20).values():
        try:
            future.result(timeout=25)
        except (KafkaException, TimeoutError) as error:
            raise NotMeasuredError(f"cannot create a topic: {error}") from error


def _described(address: str, topic: str | None) -> MetadataResponse | None:
    topics = () if topic is None else (MetadataRequestTopic(name=topic),)
    host, port = address.split(":")
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = ask((host, int(port)), request, 12, timeout_s=5)
    return answer if isinstance(answer, MetadataResponse) else None


def _brokers(bootstrap: str) -> int:
    """The number of brokers in the Metadata of each of these addresses, the lowest one."""
    found = [_described(address, None) for address in bootstrap.split(",")]
    return min([0 if answer is None else len(answer.brokers) for answer in found])


def _leader(nodes: Nodes, topic: str) -> int:
    """The leader of partition 0, once all replicas are in sync."""
    _await(lambda: _in_sync(nodes, topic) == len(nodes.nodes), "not all replicas are in sync")
    answer = _described(nodes[1].bootstrap, topic)
    assert answer is not None
    return answer.topics[0].partitions[0].leader_id


def _in_sync(nodes: Nodes, topic: str) -> int:
    answer = _described(nodes[1].bootstrap, topic)
    parts = () if answer is None else answer.topics[0].partitions
    return len(parts[0].isr_nodes) if parts else 0


def _is_acknowledged(nodes: Nodes, number: int, topic: str) -> bool:
    host, port = nodes[number].bootstrap.split(":")
    batch = build_batch([SimpleRecord(None, b"x", timestamp_ms=time.time_ns() // 1_000_000)])
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(data,))
    answer = ask((host, int(port)), request, 9, timeout_s=2)
    return isinstance(answer, ProduceResponse) and not answer.responses[0].partition_responses[0].error_code


def _await(done: Callable[[], bool], why_not: str, within_s: float = 60.0) -> None:
    deadline = time.perf_counter() + within_s
    while not done():
        if time.perf_counter() > deadline:
            raise NotMeasuredError(f"{why_not} after {within_s:.0f} s")
        time.sleep(ASK_EVERY_S * 5)


def _one_partition(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    return produce(side, mode, effort, partitions=1)


def _partitions_12(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    return produce(side, mode, effort, partitions=12)


_RATE = (Figure("rate", "MB/s"),)
_TIMES = (Figure("rate", "req/s"), Figure("times", "times one broker's"))
_PAGE = (Mode.PAGE_CACHE,)

CASES = (
    Case("cluster-produce", "3 nodes, RF 3: produce 1 KB, librdkafka", _RATE, _one_partition, as_shipped=True),
    Case(
        "cluster-produce-12p",
        "3 nodes, RF 3: produce 1 KB, 12 partitions",
        _RATE,
        _partitions_12,
        as_shipped=True,
        quick_modes=_PAGE,
    ),
    Case(
        "cluster-latency",
        "3 nodes, RF 3: end to end at 1,000 msg/s",
        (Figure("p99", "ms p99", higher_is_better=False), Figure("p50", "ms p50", higher_is_better=False)),
        end_to_end,
        as_shipped=True,
        quick_modes=_PAGE,
    ),
    Case(
        "cluster-idle",
        "3 nodes without clients",
        (
            Figure("cores", "% of a core", higher_is_better=False),
            Figure("anonymous", "MB anonymous", higher_is_better=False),
        ),
        idle,
        modes=(Mode.ANY,),
    ),
    Case(
        "cluster-failover",
        "3 nodes: killed leader to the first acknowledged produce",
        (Figure("seconds", "s", higher_is_better=False),),
        fail_over,
        modes=(Mode.FSYNC,),
    ),
    Case(
        "cluster-two-brokers",
        "serve --brokers 2: 16 connections, 100 B a request",
        _TIMES,
        two_brokers,
        modes=(Mode.FSYNC,),
        sides=(ODRADEK,),
        absent="one JVM uses all cores",
    ),
    Case(
        "cluster-two-brokers-limited",
        f"the same with {BROKER_CORES} cores for each broker",
        _TIMES,
        two_limited_brokers,
        sides=(ODRADEK,),
        absent="one JVM uses all cores",
        quick_modes=(Mode.FSYNC,),
    ),
)
