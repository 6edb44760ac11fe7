"""Three nodes of a real Kafka, and three of Odradek: processes on this machine, combined roles, the same properties.

`KafkaNodes` and `OdradekNodes` differ only in the command that starts a node. Kafka always runs on the local JVM, from
the jars that its tools need as well.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compat_tests import jvm_starts
from compat_tests.brokers import SETTINGS, java_properties
from compat_tests.processes import Daemon, free_port, remove_tree_guard, wait_for_broker
from compat_tests.real_kafka import UnavailableError, formatted, jars_folder, java_command

NODES: Final = 3
CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
START_TIMEOUT_S: Final = 240.0
HEAP: Final = "-Xms64m -Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Starts quickly and is small; benchmarks use more."""

REPLICATED: Final[dict[str, str]] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""The settings of `odradek serve --brokers 3`."""

CLUSTER_SETTINGS: Final[dict[str, str]] = {
    **SETTINGS,
    **REPLICATED,
    # far longer than the default of 9 s: on a busy machine a node may be suspended for so long
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "250",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.state.log.num.partitions": "4",
    "auto.leader.rebalance.enable": "false",
}
_QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@dataclass
class Node:
    """One node: its id, its ports, its directory and, while it runs, its process."""

    number: int
    port: int
    controller_port: int
    home: Path
    daemon: Daemon | None = field(default=None, repr=False)

    @property
    def bootstrap(self) -> str:
        """Its address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def controller(self) -> str:
        """Its address as a controller for other nodes."""
        return f"127.0.0.1:{self.controller_port}"

    @property
    def config(self) -> Path:
        """Its properties file."""
        return self.home / "server.properties"

    def properties(self, voters: str, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings of this node: Kafka's KRaft properties."""
        return {
            "node.id": str(self.number),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.home / "data"),
            "broker.rack": f"rack-{self.number}",
            # as long as `_await` waits: a node that cannot register for 60 s, the default, ends
            "initial.broker.registration.timeout.ms": str(int(START_TIMEOUT_S * 1000)),
            **settings,
        }


class Nodes(ABC):
    """A cluster of nodes 1, 2, … that all run once it is made; subclasses define the program of a node."""

    name: str
    provider: str
    replicas = 3

    def __init__(self, settings: Mapping[str, str] | None = None, count: int = NODES) -> None:
        self.home = Path(tempfile.mkdtemp(prefix=f"{self.name}-nodes-"))
        self._remove = remove_tree_guard(self.home)
        self.nodes = {
            number: Node(number, free_port(), free_port(), self.home / f"node-{number}")
            for number in range(1, count + 1)
        }
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())
        voters = ",".join(f"{node.number}@{node.controller}" for node in self.nodes.values())
        for node in self.nodes.values():
            node.home.mkdir()
            given = CLUSTER_SETTINGS if settings is None else settings
            node.config.write_text(java_properties(node.properties(voters, given)))
        try:
            self._format()
            self.start(*self.nodes)
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _format(self) -> None:
        """Formats the directories."""

    @abstractmethod
    def _command(self, node: Node) -> list[str]:
        """The command that starts the node."""

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def start(self, *numbers: int) -> None:
        """Starts nodes that do not run.

        Returns when each serves clients and has all running nodes in its metadata. Raises RuntimeError with the end of
        a log.
        """
        for number in numbers:
            node = self.nodes[number]
            assert node.daemon is None, f"node {number} runs already"
            node.daemon = Daemon(self._command(node), log=node.home / "node.log")
        for number in numbers:
            self._await(self.nodes[number])

    def _await(self, node: Node) -> None:
        """Waits until it serves and has all running nodes; one stopped earlier leaves without unregistering."""
        daemon = node.daemon
        assert daemon is not None
        running = sum(other.daemon is not None for other in self.nodes.values())

        def alive() -> bool:
            return daemon.process.poll() is None

        try:
            wait_for_broker(node.bootstrap, timeout_s=START_TIMEOUT_S, alive=alive, brokers=running)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"node {node.number} of {self.provider}: {error}\n{daemon.tail()}") from error

    def kill(self, number: int) -> None:
        """``kill -9`` a node; returns when its process has ended."""
        node = self.nodes[number]
        if node.daemon is not None:
            node.daemon.kill()
            node.daemon = None

    def crash(self) -> None:
        """``kill -9`` one node, as a case does with a single broker."""
        self.kill(1)

    def restart(self) -> None:
        """Starts that node again; returns when it serves."""
        self.start(1)

    def shut_down(self, number: int) -> None:
        """SIGTERM: the node hands over its partitions and ends; returns when its process has ended."""
        node = self.nodes[number]
        assert node.daemon is not None, f"node {number} does not run"
        node.daemon.terminate(timeout_s=60)
        node.daemon = None

    def pause(self, number: int) -> None:
        """Sends SIGSTOP, so that the node hangs."""
        self._signal(number, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Sends SIGCONT."""
        self._signal(number, signal.SIGCONT)

    def _signal(self, number: int, what: signal.Signals) -> None:
        daemon = self.nodes[number].daemon
        assert daemon is not None, f"node {number} does not run"
        os.killpg(daemon.process.pid, what)

    def log_tail(self) -> str:
        """The ends of the nodes' logs, for failure reports."""
        logs = [(node.number, node.home / "node.log") for node in self.nodes.values()]
        ends = [(number, log.read_text(errors="replace").splitlines()[-5:]) for number, log in logs if log.exists()]
        return "\n".join(f"-- node {number}\n" + "\n".join(lines) for number, lines in ends)

    def stop(self) -> None:
        """Ends all nodes and deletes their data."""
        for number in self.nodes:
            self.kill(number)
        self._remove.release()


class OdradekNodes(Nodes):
    """``odradek serve --config`` for each node."""

    name = "odradek"
    provider = "odradek serve, three nodes"

    def _format(self) -> None:
        """An empty directory needs no formatting."""

    def _command(self, node: Node) -> list[str]:
        beside = Path(sys.executable).parent / "odradek"
        odradek = str(beside) if beside.exists() else (shutil.which("odradek") or "odradek")
        return [odradek, "serve", "--config", str(node.config)]


class KafkaNodes(Nodes):
    """Apache Kafka from the jars, each node a JVM with `heap`. Raises UnavailableError without Java or jars."""

    name = "kafka"
    provider = "local JVM, three nodes"

    def __init__(self, settings: Mapping[str, str] | None = None, count: int = NODES, *, heap: str = HEAP) -> None:
        self._java, self._libs, self._heap = java_command(), jars_folder() / "kafka", heap
        if not self._libs.is_dir():
            raise UnavailableError("no Kafka jars: run scripts/fetch_jars.sh kafka")
        with jvm_starts.alone():
            super().__init__(settings, count)

    def _command(self, node: Node) -> list[str]:
        return self._program("kafka.Kafka", str(node.config))

    def _program(self, *arguments: str) -> list[str]:
        return [self._java, *self._heap.split(), _QUIET, "-cp", f"{self._libs}/*", *arguments]

    def _format(self) -> None:
        """Formats the first node's directory; those of the others differ in the node id and the directory id."""
        first, *others = self.nodes.values()
        formatted(self._program("kafka.tools.StorageTool"), CLUSTER_ID, first.config)
        for node in others:
            shutil.copytree(first.home / "data", node.home / "data")
            _rename(node.home / "data" / "meta.properties", node.number)


def _rename(file: Path, number: int) -> None:
    """Changes the directory's node and directory id: 21 letters stay, the last one before the padding changes."""
    lines = []
    for line in file.read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "node.id":
            value = str(number)
        if key == "directory.id":
            value = value[:-2] + "ABCDEFGHIJ"[number] + value[-1]
        lines.append(f"{key}={value}\n")
    file.write_text("".join(lines))


@contextmanager
def kafka_nodes(
    settings: Mapping[str, str] | None = None, count: int = NODES, *, heap: str = HEAP
) -> Iterator[KafkaNodes]:
    """Three nodes of a real Kafka for `with`; `settings` replace `CLUSTER_SETTINGS`."""
    nodes = KafkaNodes(settings, count, heap=heap)
    try:
        yield nodes
    finally:
        nodes.stop()
