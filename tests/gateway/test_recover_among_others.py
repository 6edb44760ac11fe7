"""`odradek recover` makes and changes metadata logs of clusters of one only; a start among others advises otherwise."""

import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from click.testing import CliRunner
from gateway_brokers import ThreadBroker, free_port
from gateway_client import RawClient, batch_of

from odradek.gateway.cli.main import cli
from odradek.gateway.errors import StartError, first_error
from odradek.gateway.quorum.stored import NONE, OTHER_NODES, SOME
from odradek.storage_backends.opener import open_store
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest

BOTH, BROKER, CONTROLLER = "broker,controller", "broker", "controller"
TOPIC = "orders"


class Nodes:
    """Nodes of one cluster, by their ids; `named` is the setting that names the controllers."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ports: dict[tuple[int, str], int] = {}

    def data(self, node: int) -> Path:
        return self._home / f"node-{node}"

    def address(self, node: int, listener: str = "CONTROLLER") -> str:
        return f"127.0.0.1:{self._ports.setdefault((node, listener), free_port())}"

    def voters(self, *nodes: int) -> dict[str, str]:
        return {"controller.quorum.voters": ",".join(f"{node}@{self.address(node)}" for node in nodes)}

    def servers(self, *nodes: int) -> dict[str, str]:
        return {"controller.quorum.bootstrap.servers": ",".join(self.address(node) for node in nodes)}

    def settings(self, node: int, named: dict[str, str], roles: str = BOTH) -> dict[str, str]:
        names = {BROKER: "PLAINTEXT", CONTROLLER: "CONTROLLER"}
        listeners = [f"{names[role]}://{self.address(node, names[role])}" for role in roles.split(",")]
        return {
            "node.id": str(node),
            "process.roles": roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "offsets.topic.replication.factor": "1",
            **named,
        }

    def broker(self, node: int, named: dict[str, str], roles: str = BOTH) -> ThreadBroker:
        return ThreadBroker(f"lmdb://{self.data(node)}", **self.settings(node, named, roles))

    def file(self, node: int, named: dict[str, str], roles: str = BOTH) -> str:
        path = self._home / f"node-{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.settings(node, named, roles).items()))
        return str(path)

    def fill(self, named: dict[str, str], roles: dict[int, str]) -> None:
        """Runs the nodes until all have started and each partition has a record; each node leads one of them."""
        brokers = [self.broker(node, named, each) for node, each in roles.items()]
        for broker in brokers:
            broker.start()
        for broker in brokers:
            await_that(broker.broker.services.life.ready.is_set)
        serving = [broker for broker, each in zip(brokers, roles.values(), strict=True) if each != CONTROLLER]
        with RawClient(serving[0].address) as client:
            client.create_topic(TOPIC, partitions=len(serving))
        for index in range(len(serving)):
            await_that(lambda index=index: any(writes(broker, index) for broker in serving))
        if len(roles) > 1:
            await_that(lambda: all(each.env.store.properties().get(OTHER_NODES) == SOME for each in brokers))
        for broker in brokers:
            broker.begin_stop()
        for broker in brokers:
            broker.join()

    def stray(self, node: int, topic: str) -> str:
        """Adds a log that was set aside; returns its directory."""
        [found, *_] = self.data(node).glob(f"{TOPIC}-*")
        index = found.name.removeprefix(TOPIC).partition(".")[0]
        path = self.data(node) / f"{topic}{index}.c9b8AAAAQACAAAAAAAAAAA-stray"
        copytree(found, path)
        return path.name

    def lose_metadata(self, node: int) -> None:
        for path in self.data(node).glob("__cluster_metadata-0.*"):
            rmtree(path)

    def refusal(self, node: int, named: dict[str, str], roles: str = BOTH) -> str:
        with pytest.raises(BaseExceptionGroup) as failed:
            self.broker(node, named, roles).start()
        error = first_error(failed.value)
        assert isinstance(error, StartError)
        return str(error)

    def serves(self, node: int, named: dict[str, str], topic: str) -> None:
        """Starts a node, which has one record of the topic."""
        with self.broker(node, named) as broker, RawClient(broker.address) as client:
            await_that(broker.broker.services.life.ready.is_set)
            await_that(lambda: client.fetch(topic).error_code == ErrorCode.NONE)
            assert client.values(topic) == [b"x"]


def writes(broker: ThreadBroker, index: int) -> bool:
    """True if the broker leads the partition, and has written a record to it."""
    with RawClient(broker.address) as client:
        return client.produce(TOPIC, batch_of(b"x"), index).error_code == ErrorCode.NONE


def await_that(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def recover(nodes: Nodes, node: int, *arguments: str, code: int = 0) -> str:
    """Runs the command; a refusal must not change the directory."""
    before = contents(nodes.data(node))
    result = CliRunner().invoke(cli, ["recover", "--data", str(nodes.data(node)), *arguments], prog_name="odradek")
    assert result.exit_code == code, result.output
    assert code == 0 or contents(nodes.data(node)) == before
    return result.output


def contents(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file() and path.name != "lock"}


@pytest.fixture
def nodes(tmp_path):
    return Nodes(tmp_path)


def refuses_everything(nodes: Nodes, named: dict[str, str], cause: str, *config: str) -> None:
    """Node 1: a topic is not adopted; when the metadata log is lost, neither start nor command make another one."""
    stray = nodes.stray(1, "lost")
    assert "Delete all with --delete-strays" in recover(nodes, 1, *config)
    adopting = recover(nodes, 1, "--adopt", stray, "--yes", *config, code=1)
    assert "This node is one of several" in adopting
    nodes.lose_metadata(1)
    refused = nodes.refusal(1, named)
    for text in (refused, recover(nodes, 1, *config, code=1), recover(nodes, 1, "--yes", *config, code=1)):
        assert f"is one of several ({cause}" in text
        assert "docs/cluster.md describes (Replace a dead node)" in text
        assert "odradek recover --data" not in text
        assert "restore it from a backup" not in text
    assert "Deleted 1 log" in recover(nodes, 1, "--delete-strays", "--yes", *config)


def test_a_voter_of_the_settings_is_refused(nodes):
    named = nodes.voters(1, 2, 3)
    nodes.fill(named, {1: BOTH, 2: BOTH, 3: BOTH})
    refuses_everything(nodes, named, "its settings name other controllers", "--config", nodes.file(1, named))


def test_its_store_shows_it_without_its_settings(nodes):
    named = nodes.voters(1, 2, 3)
    nodes.fill(named, {1: BOTH, 2: BOTH, 3: BOTH})
    nodes.lose_metadata(1)
    for text in (recover(nodes, 1, code=1), recover(nodes, 1, "--yes", code=1)):
        assert "This node is one of several (its cluster has other nodes)" in text
    store = open_store(f"lmdb://{nodes.data(1)}")
    store.set_properties({OTHER_NODES: NONE})  # the store of a version that did not note it
    store.close()
    assert "the property quorum.state of its store is that of one of several" in recover(nodes, 1, "--yes", code=1)


@pytest.mark.parametrize("kind", ["voters", "servers"])
def test_the_only_controller_of_several_brokers_is_refused(nodes, kind):
    named = nodes.voters(1) if kind == "voters" else nodes.servers(1)
    nodes.fill(named, {1: BOTH, 2: BROKER})
    refuses_everything(nodes, named, "its cluster has other nodes")


def test_a_controller_without_other_logs_begins_no_second_metadata_log(nodes):
    named = nodes.voters(1)
    nodes.fill(named, {1: CONTROLLER, 2: BROKER})
    nodes.lose_metadata(1)
    assert "is one of several (its cluster has other nodes)" in nodes.refusal(1, named, CONTROLLER)


def test_other_nodes_in_the_readable_part_of_a_damaged_log_count(nodes):
    named = nodes.voters(1)
    nodes.fill(named, {1: BOTH, 2: BROKER})
    store = open_store(f"lmdb://{nodes.data(1)}")
    store.set_properties({OTHER_NODES: NONE})
    store.close()
    [path] = nodes.data(1).glob("__cluster_metadata-0.*/*.lmdb")
    content = path.read_bytes()
    assert content.count(TOPIC.encode()) >= 1
    path.write_bytes(content.replace(TOPIC.encode(), b"0rders"))  # a batch after the registrations
    assert "(its metadata names other nodes: 2)" in recover(nodes, 1, "--yes", code=1)


def test_a_broker_whose_metadata_log_is_lost_is_told_to_fetch_it(nodes):
    named = nodes.voters(1)
    nodes.fill(named, {1: BOTH, 2: BROKER})
    nodes.lose_metadata(2)
    file = nodes.file(2, named, BROKER)
    refused = recover(nodes, 2, "--config", file, "--yes", code=1)
    assert "it is only a broker" in refused
    assert "start this node again: it fetches the metadata log" in refused


def test_the_only_controller_goes_on_with_the_metadata_log_of_a_broker(nodes):
    """The procedure of docs/cluster.md."""
    named = nodes.voters(1)
    nodes.fill(named, {1: BOTH, 2: BROKER})
    nodes.lose_metadata(1)
    for path in nodes.data(2).glob("__cluster_metadata-0.*"):
        copytree(path, nodes.data(1) / path.name)
    assert "is intact" in recover(nodes, 1)
    with nodes.broker(1, named) as first, nodes.broker(2, named, BROKER) as second:
        for index in range(2):
            await_that(lambda index=index: any(writes(broker, index) for broker in (first, second)))
        with RawClient(first.address) as client:
            client.create_topic("new")
        await_that(lambda: second.broker.services.metadata.image.topic("new") is not None)
    assert not list(nodes.data(1).glob("*-stray"))
    assert not list(nodes.data(2).glob("*-stray"))


def test_a_node_recovers_under_its_own_id_without_its_settings(nodes):
    named = nodes.voters(5)
    nodes.fill(named, {5: BOTH})
    nodes.lose_metadata(5)
    assert "is rebuilt" in recover(nodes, 5, "--yes")
    nodes.serves(5, named, TOPIC)


@pytest.mark.parametrize("has_config", [False, True])
def test_a_controller_that_founded_a_quorum_and_is_alone_recovers(nodes, has_config):
    named = nodes.servers(1)
    nodes.fill(named, {1: BOTH})
    config = ("--config", nodes.file(1, named)) if has_config else ()
    nodes.lose_metadata(1)
    assert "or run `odradek recover --data" in nodes.refusal(1, named)
    assert "is rebuilt" in recover(nodes, 1, "--yes", *config)
    nodes.serves(1, named, TOPIC)
    nodes.stray(1, "lost")
    assert "lost is a topic of the cluster again" in recover(nodes, 1, "--adopt", "lost", "--yes", *config)
    nodes.serves(1, named, "lost")


def test_a_cluster_that_has_lost_its_other_broker_for_good_is_alone_again(nodes):
    named = nodes.voters(1)
    nodes.fill(named, {1: BOTH, 2: BROKER})
    with nodes.broker(1, named) as broker, RawClient(broker.address) as client:
        assert client.call(UnregisterBrokerRequest(broker_id=2), 0).error_code == ErrorCode.NONE
        await_that(lambda: broker.env.store.properties()[OTHER_NODES] == NONE)
    nodes.lose_metadata(1)
    assert "is rebuilt" in recover(nodes, 1, "--yes")
