"""A cluster inside a test: real nodes, each a separate process, that can be killed, paused, disconnected and wiped."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from odradek.gateway.supervision.layout import NodePlan, node_environment, plan, properties_of, voters_of
from odradek.gateway.supervision.supervisor import node_command
from odradek.gateway.testing.kit.facade import CALL_TIMEOUT_S, TestKafka
from odradek.gateway.testing.ports import free_ports

if TYPE_CHECKING:
    from odradek.gateway.config import SettingValue
    from odradek.gateway.testing.kit.access import Access
    from odradek.wire.messages.metadata import MetadataResponsePartition
    from odradek.wire.schema.schema import Message

T = TypeVar("T")

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
ASK_EVERY_S: Final = 0.05

QUICK: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "group.min.session.timeout.ms": "500",
}
"""Settings with which a cluster notices in a second or two that a broker is gone; Kafka's defaults take up to twelve.

A session is several heartbeats long, so that a machine with two cores and twenty busy processes fences no broker.
"""


class TestNode:
    """One node's process. Its log is in `log_path`."""

    __test__ = False  # pytest collects classes whose names begin with Test

    def __init__(self, node: NodePlan, file: Path) -> None:
        self.plan = node
        self.log_path = node.directory.parent / f"node-{node.node_id}.log"
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = threading.Event()

    @property
    def is_running(self) -> bool:
        """True if its process exists, also if it is paused."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; `await_ready` waits until it serves."""
        assert not self.is_running, f"node {self.plan.node_id} runs already"
        self._ready = threading.Event()
        with self.log_path.open("ab") as log:
            # Its standard input ends when this process ends, in any way; the node stops then.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                node_command(self._file, ["--log-format", "json"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=node_environment(os.environ),
            )
        threading.Thread(target=self._watch, args=(self._process, self._ready), daemon=True).start()

    @staticmethod
    def _watch(process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        """Read stdout, and set `ready` at the line that it prints once it serves."""
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                if json.loads(line).get("message") == "ready":
                    ready.set()

    def await_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until it serves clients. Raises RuntimeError with the end of its log if it does not in time, or ends."""
        deadline = time.monotonic() + timeout_s
        while not self._ready.wait(ASK_EVERY_S):
            if not self.is_running or time.monotonic() > deadline:
                end = self.log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"node {self.plan.node_id} does not serve; its log ends with:\n{end}")

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        """Ask the process to stop cleanly, if it runs: SIGTERM, or on Windows the end of its standard input."""
        if sys.platform != "win32":
            self.signal(signal.SIGTERM)
        elif self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End the process at once, if it runs."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the process until `resume`. Raises RuntimeError on Windows."""
        if sys.platform == "win32":
            raise RuntimeError("a broker cannot be paused: Windows has no SIGSTOP; `isolate` or `kill` it instead")
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        if sys.platform != "win32":
            self.signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The process's id. The node must have been started."""
        assert self._process is not None
        return self._process.pid

    def join(self) -> None:
        """Wait until the process has ended. Raises subprocess.TimeoutExpired."""
        if self._process is not None:
            self._process.wait(STOP_TIMEOUT_S)
            if self._process.stdin is not None:
                self._process.stdin.close()


class Links:
    """The connections between nodes, which go through a process that can cut them (`links.py`)."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._arguments: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def before(self, node_id: int, port: int) -> int:
        """Add a relay in front of a node's `port`; returns the relay's port."""
        [before] = free_ports(1)
        self._arguments.append(f"{before}:{node_id}:{port}")
        return before

    def start(self) -> None:
        """Start the process; `await_ready` waits until it serves."""
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "odradek.gateway.testing.links", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def await_ready(self) -> None:
        """Wait until all links serve. Raises RuntimeError if the process has ended instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            raise RuntimeError("the links between the nodes do not serve: see the error output of their process")

    @property
    def is_running(self) -> bool:
        """True if the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def execute(self, command: str) -> None:
        """Send a command to the process, and return when it has been executed."""
        process = self._process
        assert process is not None, "this cluster has no links that can be cut"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(command.encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == b"done"

    def stop(self) -> None:
        """End the process by closing its standard input."""
        if self._process is not None:
            with self._process as process:
                assert process.stdin is not None
                process.stdin.close()


class TestCluster(TestKafka):
    """Brokers with the ids 1, 2, …, that run while the `with` block does.

    `config` contains further settings of all brokers under Kafka's names. Data are in `directory`, by default a
    temporary one. The first `controllers` brokers are controllers, too, by default at most three. Without `links`,
    nodes connect to each other directly, and `partition` cannot be used. The settings in `QUICK` apply unless `config`
    has others; without `quick`, Kafka's defaults.
    """

    def __init__(
        self,
        brokers: int = 3,
        config: "Mapping[str, SettingValue] | None" = None,
        directory: str | Path | None = None,
        *,
        controllers: int | None = None,
        links: bool = True,
        quick: bool = True,
    ) -> None:
        self.host = "127.0.0.1"
        self._brokers = brokers
        self._config = {**(QUICK if quick else {}), **(config or {})}
        data = None if directory is None else Path(directory)
        self._controllers = voters_of(brokers, data) if controllers is None else controllers
        self._directory = directory
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._nodes: dict[int, TestNode] = {}
        self._links = Links(self.host) if links else None

    @property
    def bootstrap(self) -> str:
        """The clients' `bootstrap.servers`: all brokers."""
        return self.bootstrap_without()

    def bootstrap_without(self, *broker_ids: int) -> str:
        """As `bootstrap`, without some brokers."""
        return ",".join(
            [f"{self.host}:{node.plan.port}" for each, node in self._nodes.items() if each not in broker_ids]
        )

    @property
    def ids(self) -> tuple[int, ...]:
        """The brokers' ids."""
        return tuple(self._nodes)

    def node(self, broker_id: int) -> TestNode:
        """The process of one broker."""
        return self._nodes[broker_id]

    def start(self) -> None:
        """Start all brokers, and return when all serve. Raises RuntimeError if one does not."""
        from odradek.gateway.config.python_values import setting_texts

        if self._directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="odradek-cluster-")
        directory = Path(self._directory or (self._temporary.name if self._temporary else "."))
        directory.mkdir(parents=True, exist_ok=True)
        ports = free_ports(self._brokers + self._controllers)
        settings = {"group.initial.rebalance.delay.ms": "0", **setting_texts(self._config)}
        controllers = [(self.host, port) for port in ports[self._brokers :]]
        planned = plan(directory, self.host, ports[: self._brokers], controllers, settings)
        if self._links is not None:
            planned = _linked(planned, self._links, self.host)
            self._links.start()
        for each in planned:
            file = properties_of(directory, each.node_id)
            each.write(file)
            self._nodes[each.node_id] = self.new_node(each, file)
        for node in self._nodes.values():
            node.start()
        if self._links is not None:
            self._links.await_ready()
        for node in self._nodes.values():
            node.await_ready()

    def new_node(self, node: NodePlan, file: Path) -> TestNode:
        """The object that runs a node's process. A subclass may override this to run another program."""
        return TestNode(node, file)

    def stop(self) -> None:
        """Stop all brokers cleanly, also paused ones, and remove the data unless `directory` was given."""
        if self._links is not None and self._links.is_running:
            self.heal()
        for node in self._nodes.values():
            node.resume()
            node.ask_to_stop()
        for node in self._nodes.values():
            try:
                node.join()
            except subprocess.TimeoutExpired:
                node.kill()
                node.join()
        if self._links is not None:
            self._links.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def kill(self, broker_id: int) -> None:
        """Kill a broker (SIGKILL), and return when its process has ended."""
        self.kill_at_once(broker_id)

    def kill_at_once(self, *broker_ids: int) -> None:
        """Kill several brokers before any of them can notice the end of another, and return when all are gone."""
        for broker_id in broker_ids:
            self._nodes[broker_id].kill()
        for broker_id in broker_ids:
            self._nodes[broker_id].join()

    def restart(self, broker_id: int) -> None:
        """Start a broker, after a clean shutdown if it runs; returns when it serves clients."""
        node = self._nodes[broker_id]
        node.resume()
        node.ask_to_stop()
        node.join()
        node.start()
        node.await_ready()

    def pause(self, broker_id: int) -> None:
        """Pause a broker's process (SIGSTOP), like a machine that hangs, until `resume`.

        Raises RuntimeError on Windows, where a process cannot be paused.
        """
        self._nodes[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        """Resume a paused broker (SIGCONT)."""
        self._nodes[broker_id].resume()

    def partition(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Cut the link between two brokers until `heal`, which delivers what was sent meanwhile.

        `one_way` cuts only the direction from `one` to `other`.
        """
        assert self._links is not None, "this cluster has no links that can be cut"
        self._links.execute(f"cut {one} {other}")
        if not one_way:
            self._links.execute(f"cut {other} {one}")

    def isolate(self, broker_id: int) -> None:
        """Cut all links between a broker and the others until `heal`. Clients still reach it."""
        for other in self._nodes:
            if other != broker_id:
                self.partition(broker_id, other)

    def cut(self, broker_id: int) -> None:
        """Cut a broker off from the others until `heal`, as `isolate` does."""
        self.isolate(broker_id)

    def heal(self) -> None:
        """Restore all links between brokers; what was sent meanwhile is delivered now."""
        assert self._links is not None, "this cluster has no links that can be cut"
        self._links.execute("heal")

    def wipe(self, broker_id: int) -> None:
        """Delete all data of a broker that does not run, as if it got a new disk."""
        assert not self._nodes[broker_id].is_running, f"node {broker_id} runs"
        shutil.rmtree(self._nodes[broker_id].plan.directory)

    def leader(self, topic: str, partition: int, *, not_broker: int | None = None, timeout_s: float = 60.0) -> int:
        """Wait until a broker other than `not_broker` leads a partition; returns its id. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for broker_id in self._nodes:
                leader = self._leader_at(broker_id, topic, partition) if broker_id != not_broker else None
                if leader is not None and leader != not_broker:
                    return leader
            time.sleep(ASK_EVERY_S)
        raise TimeoutError(f"{topic}-{partition} has no leader within {timeout_s:.0f} s")

    def await_in_sync(self, timeout_s: float = 60.0) -> None:
        """Wait until all replicas of all partitions are in sync, in the metadata of every broker that answers.

        A partition that one broker knows and another does not know yet is not in sync. Raises TimeoutError naming
        partitions that are not.
        """
        deadline = time.monotonic() + timeout_s
        behind = ["no broker answers"]
        while time.monotonic() < deadline:
            found = [each for each in map(self._partitions_at, self._nodes) if each is not None]
            if found:
                names = sorted({name for each in found for name in each})
                behind = [name for name in names if not all(_in_sync(each.get(name)) for each in found)]
            if not behind:
                return
            time.sleep(ASK_EVERY_S)
        raise TimeoutError(f"not in sync within {timeout_s:.0f} s: {', '.join(behind)}")

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, timeout_s: float = 60.0) -> int:
        """Let another in-sync replica lead a partition, `to` or the next one; returns its id once it leads.

        It becomes the first replica. Raises LookupError, RuntimeError if no other replica is in sync, TimeoutError.
        """
        from odradek.gateway.testing.kit.elections import move_leader

        return self.with_access(lambda access: move_leader(access, topic, partition, to), timeout_s)

    def elect_preferred(self, timeout_s: float = 60.0) -> None:
        """Let the first replica of every partition lead; returns when all brokers know it. All brokers must run.

        After failures one broker may lead everything; this distributes the leaders as they were at creation. Raises
        TimeoutError naming partitions with another leader.
        """
        from odradek.wire.messages.elect_leaders import ElectLeadersRequest

        deadline = time.monotonic() + timeout_s
        others: set[str] = set()
        while time.monotonic() < deadline:
            self._ask(self.ids[0], ElectLeadersRequest(election_type=0, topic_partitions=None), 2)
            others = {each for broker_id in self._nodes for each in self._led_by_others(broker_id)}
            if not others:
                return
            time.sleep(ASK_EVERY_S)
        raise TimeoutError(f"not led by the first replica within {timeout_s:.0f} s: {', '.join(sorted(others))}")

    def _led_by_others(self, broker_id: int) -> list[str]:
        found = self._partitions_at(broker_id)
        if found is None:
            return [f"broker {broker_id} does not answer"]
        others = [name for name, part in found.items() if part.leader_id != part.replica_nodes[0]]
        return [f"{name} in the metadata of broker {broker_id}" for name in others]

    def _partitions_at(self, broker_id: int) -> "dict[str, MetadataResponsePartition] | None":
        """All partitions in the broker's metadata; None if it does not answer."""
        from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse

        response = self._ask(broker_id, MetadataRequest(topics=None), 12)
        if not isinstance(response, MetadataResponse):
            return None
        return {f"{topic.name}-{part.partition_index}": part for topic in response.topics for part in topic.partitions}

    def controller(self, *, not_node: int | None = None, timeout_s: float = 60.0) -> int:
        """Wait until a node other than `not_node` is the active controller; returns its id. Raises TimeoutError."""
        from odradek.wire.messages.describe_quorum import (
            DescribeQuorumRequest,
            DescribeQuorumRequestPartitionData,
            DescribeQuorumRequestTopicData,
            DescribeQuorumResponse,
        )

        metadata = DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata", partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
        )
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for broker_id in self._nodes:
                if broker_id != not_node:
                    response = self._ask(broker_id, DescribeQuorumRequest(topics=(metadata,)), 2)
                    if isinstance(response, DescribeQuorumResponse) and response.topics:
                        leader = response.topics[0].partitions[0].leader_id
                        if leader >= 0 and leader != not_node:
                            return leader
            time.sleep(ASK_EVERY_S)
        raise TimeoutError(f"there is no active controller within {timeout_s:.0f} s")

    def coordinator(self, key: str, *, transactional: bool = False, timeout_s: float = 60.0) -> int:
        """Wait until a group or, with `transactional`, a transactional id has a coordinator; returns the broker's id.

        Raises TimeoutError.
        """
        from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        request = FindCoordinatorRequest(key_type=int(transactional), coordinator_keys=(key,))
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for broker_id in self._nodes:
                response = self._ask(broker_id, request, 4)
                if isinstance(response, FindCoordinatorResponse) and response.coordinators[0].error_code == 0:
                    return response.coordinators[0].node_id
            time.sleep(ASK_EVERY_S)
        raise TimeoutError(f"{key!r} has no coordinator within {timeout_s:.0f} s")

    def _leader_at(self, broker_id: int, topic: str, partition: int) -> int | None:
        from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

        request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        response = self._ask(broker_id, request, 12)
        if not isinstance(response, MetadataResponse):
            return None
        found = [
            part.leader_id
            for part in response.topics[0].partitions
            if part.partition_index == partition and part.leader_id >= 0
        ]
        return found[0] if found else None

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: "Mapping[str, SettingValue] | None" = None,
    ) -> None:
        """Create a topic, by default with up to three replicas, and return when all its partitions have leaders.

        Raises RuntimeError if the cluster refuses the topic, TimeoutError if no broker answers or there is no leader.
        """
        from odradek.gateway.testing.kit.topics import create_topics, new_topic

        topic = new_topic(name, {"partitions": partitions, "configs": configs or {}}, replication_factor)
        self.with_access(lambda access: create_topics(access, [topic]), CALL_TIMEOUT_S)

    def with_access(self, function: "Callable[[Access], Awaitable[T]]", timeout_s: float) -> T:
        """See `TestKafka.with_access`; requests go to the brokers over connections, which this opens and closes."""
        from odradek.gateway.testing.kit.remote import run_with_cluster

        if not self._nodes:
            raise RuntimeError("the cluster does not run: use it inside its `with` block, or after `start()`")
        addresses = {broker_id: (self.host, node.plan.port) for broker_id, node in self._nodes.items()}
        return run_with_cluster(addresses, function, timeout_s)

    def _ask(self, broker_id: int, request: "Message", version: int) -> "Message | None":
        """The response of a broker; None if there is none."""
        from odradek.gateway.testing.asking import ask

        return ask((self.host, self._nodes[broker_id].plan.port), request, version)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def cluster(
    brokers: int = 3,
    config: "Mapping[str, SettingValue] | None" = None,
    directory: str | Path | None = None,
    *,
    controllers: int | None = None,
    links: bool = True,
    quick: bool = True,
) -> TestCluster:
    """A cluster for a `with` block; see `TestCluster`."""
    return TestCluster(brokers, config, directory, controllers=controllers, links=links, quick=quick)


def _linked(nodes: list[NodePlan], links: Links, host: str) -> list[NodePlan]:
    """The nodes with settings that route all connections between them through `links`."""
    ports = dict(zip([node.node_id for node in nodes], free_ports(len(nodes)), strict=True))
    controllers = {
        node.node_id: links.before(node.node_id, node.controller_port)
        for node in nodes
        if node.controller_port is not None
    }
    voters = ",".join([f"{node_id}@{host}:{port}" for node_id, port in controllers.items()])
    linked: list[NodePlan] = []
    for node in nodes:
        own = ports[node.node_id]
        advertised = [f"PLAINTEXT://{host}:{node.port}", f"INTERNAL://{host}:{links.before(node.node_id, own)}"]
        if node.node_id in controllers:
            advertised.append(f"CONTROLLER://{host}:{controllers[node.node_id]}")
        settings = {
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": f"{node.settings['listener.security.protocol.map']},INTERNAL:PLAINTEXT",
            "listeners": f"{node.settings['listeners']},INTERNAL://{host}:{own}",
            "advertised.listeners": ",".join(advertised),
            "inter.broker.listener.name": "INTERNAL",
        }
        linked.append(dataclasses.replace(node, settings={**node.settings, **settings}))
    return linked


def _in_sync(part: "MetadataResponsePartition | None") -> bool:
    return part is not None and set(part.isr_nodes) == set(part.replica_nodes)
