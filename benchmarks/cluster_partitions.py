"""Many partitions on three brokers: the time to create them, to start with them and to fail over, and the memory.

    python -m benchmarks.cluster_partitions [--partitions 10000] [--topics 100] [--json FILE]

Measures only Odradek: three nodes as processes on this machine (`odradek.cluster`), every partition with three
replicas. A step that waits for all partitions ends when the Metadata of all running nodes shows the result; the CPU
seconds are those of these nodes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.machine import description
from benchmarks.proc import cpu_seconds, memory_mb
from odradek.gateway.testing.asking import ask
from odradek.gateway.testing.cluster import TestCluster
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch

REPLICAS = 3
TOPICS_A_REQUEST = 10
LOOK_EVERY_S = 0.2
WITHIN_S = 900
IDLE_S = 20
SETTINGS = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
_LOG = re.compile(r"t\d+-\d+\.[^.]+")
"""The directory of a log, once it is made."""
_STALL = re.compile(r"longest_ms=(\d+)")


class Run:
    """One cluster, and the figures measured with it, by name."""

    def __init__(self, cluster: TestCluster, topics: int, partitions: int) -> None:
        self.figures: dict[str, float] = {}
        self._cluster = cluster
        self._topics = topics
        self._each = partitions // topics
        self._total = self._each * topics

    def all(self) -> None:
        """Run every step, in order."""
        self._note_memory("empty")
        self._idle("idle without partitions")
        with self._timed("create, answered"):
            self._create()
        with self._timed("create, until all replicas are in sync everywhere"):
            self._await(lambda leaders, isr: leaders == self._total and isr == self._total * REPLICAS)
        with self._timed("create, until all logs are on disk"):
            self._await_logs()
        self._note_memory("created")
        self._idle("idle with all partitions")
        victim = self._cluster.ids[-1]
        with self._timed("restart of a node, until it serves"):
            self._cluster.restart(victim)
        with self._timed("restart of a node, until all replicas are in sync"):
            self._await(lambda leaders, isr: leaders == self._total and isr == self._total * REPLICAS)
        self._fail_over()
        self._note_memory("at the end")

    def _create(self) -> None:
        """Create the topics, ten a request: Kafka refuses more than 10,000 partitions and topics in one."""
        for first in range(0, self._topics, TOPICS_A_REQUEST):
            numbers = range(first, min(first + TOPICS_A_REQUEST, self._topics))
            topics = [
                CreatableTopic(name=f"t{n}", num_partitions=self._each, replication_factor=REPLICAS) for n in numbers
            ]
            request = CreateTopicsRequest(topics=tuple(topics), timeout_ms=WITHIN_S * 1000)
            answer = self._ask(self._cluster.ids[0], request, 7, timeout_s=WITHIN_S)
            assert isinstance(answer, CreateTopicsResponse), "no answer to CreateTopics"
            errors = {topic.error_message for topic in answer.topics if topic.error_code}
            assert not errors, errors

    def _fail_over(self) -> None:
        partition = self._led_by(self._cluster.ids[0])
        self._cluster.kill(self._cluster.ids[0])
        left = self._cluster.ids[1:]
        with self._timed("kill -9 of a broker, until a partition of it takes acks=all"):
            while not any(self._produces(at, *partition) for at in left):
                time.sleep(0.05)
        with self._timed("kill -9 of a broker, until all partitions have another leader"):
            killed = self._cluster.ids[0]
            self._await(lambda leaders, isr: leaders == self._total, at=left, not_led_by=killed)
        with self._timed("start of the killed broker, until all replicas are in sync"):
            node = self._cluster.node(self._cluster.ids[0])
            node.start()
            node.await_ready()
            self._await(lambda leaders, isr: leaders == self._total and isr == self._total * REPLICAS)

    def _led_by(self, broker_id: int) -> tuple[str, int]:
        answer = self._metadata(broker_id)
        assert answer is not None
        for topic in answer.topics:
            for part in topic.partitions:
                if part.leader_id == broker_id:
                    return str(topic.name), part.partition_index
        raise AssertionError(f"broker {broker_id} leads nothing")

    def _produces(self, at: int, topic: str, index: int) -> bool:
        records = build_batch([SimpleRecord(None, b"x")])
        data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=index, records=records),))
        answer = self._ask(at, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(data,)), 9, timeout_s=6)
        return isinstance(answer, ProduceResponse) and answer.responses[0].partition_responses[0].error_code == 0

    def _await(
        self, done: Callable[[int, int], bool], at: Sequence[int] | None = None, not_led_by: int | None = None
    ) -> None:
        deadline = time.monotonic() + WITHIN_S
        for broker_id in at or self._cluster.ids:
            while not done(*self._counts(broker_id, not_led_by)):
                assert time.monotonic() < deadline, f"broker {broker_id} reports {self._counts(broker_id, not_led_by)}"
                time.sleep(LOOK_EVERY_S)

    def _await_logs(self) -> None:
        """Replicas of a new partition count as in sync before their brokers have made its logs."""
        deadline = time.monotonic() + WITHIN_S
        while (made := self._logs()) < self._total * REPLICAS:
            assert time.monotonic() < deadline, f"{made} logs"
            time.sleep(LOOK_EVERY_S)

    def _logs(self) -> int:
        directories = [self._cluster.node(each).plan.directory for each in self._cluster.ids]
        return sum([bool(_LOG.fullmatch(path.name)) for each in directories for path in each.iterdir()])

    def _counts(self, broker_id: int, not_led_by: int | None) -> tuple[int, int]:
        """The number of partitions with a leader and of replicas in sync, in one broker's Metadata."""
        answer = self._metadata(broker_id)
        parts = [part for topic in answer.topics for part in topic.partitions] if answer else []
        led = [part for part in parts if part.leader_id >= 0 and part.leader_id != not_led_by]
        return len(led), sum([len(part.isr_nodes) for part in parts])

    def _metadata(self, broker_id: int) -> MetadataResponse | None:
        answer = self._ask(broker_id, MetadataRequest(topics=None), 12, timeout_s=30)
        return answer if isinstance(answer, MetadataResponse) else None

    def _ask(self, broker_id: int, request: object, version: int, timeout_s: float) -> object:
        address = (self._cluster.host, self._cluster.node(broker_id).plan.port)
        return ask(address, request, version, timeout_s=timeout_s)  # type: ignore[arg-type]

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        before, began = self._cpu(), time.perf_counter()
        yield
        self._note(name, "s", time.perf_counter() - began)
        self._note(name, "s CPU of the nodes that run", self._cpu_since(before))

    def _idle(self, when: str) -> None:
        before = self._cpu()
        time.sleep(IDLE_S)
        self._note(when, "cores, all nodes", self._cpu_since(before) / IDLE_S)

    def _pids(self) -> list[int]:
        nodes = [self._cluster.node(each) for each in self._cluster.ids]
        return [node.pid for node in nodes if node.is_running]

    def _cpu(self) -> dict[int, float]:
        return {pid: cpu_seconds(pid) for pid in self._pids()}

    def _cpu_since(self, before: dict[int, float]) -> float:
        """The CPU seconds since `before` of the running processes; for one started since then, all of its seconds."""
        return sum([now - before.get(pid, 0) for pid, now in self._cpu().items()])

    def _note_memory(self, when: str) -> None:
        for kind in ("anonymous", "pss"):
            self._note(f"memory {when}", f"MB {kind}, largest node", max(memory_mb(pid)[kind] for pid in self._pids()))

    def _note(self, name: str, unit: str, value: float) -> None:
        self.figures[f"{name}, {unit}"] = value
        print(f"{value:10.2f} {unit:28} {name}", flush=True)

    def stalls(self) -> None:
        """Record the longest turn of each node's event loop, from its log."""
        for broker_id in self._cluster.ids:
            text = self._cluster.node(broker_id).log_path.read_text(errors="replace")
            longest = max([int(found) for found in _STALL.findall(text)], default=0)
            self._note(f"longest turn of node {broker_id}'s loop", "ms", longest)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all steps, and print each figure when it is measured."""
    parser = argparse.ArgumentParser("python -m benchmarks.cluster_partitions", description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--json", metavar="FILE", help="write all figures to this file")
    parser.add_argument("--dir", help="the directory for the brokers' data (default: the system's temporary directory)")
    options = parser.parse_args(argv)
    machine = description()
    print("\n".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="odradek-partitions-", dir=options.dir) as directory,
        TestCluster(3, SETTINGS, directory, quick=False) as cluster,
    ):
        run = Run(cluster, options.topics, options.partitions)
        try:
            run.all()
        finally:
            run.stalls()
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine, "figures": run.figures}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
