"""A controller with its own address alone in `controller.quorum.bootstrap.servers` founds one quorum, and only once."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner
from gateway_brokers import FaultyEnvironment, ThreadBroker, free_port
from gateway_client import RawClient

from odradek.coordinator.quorum.voters import KRAFT_VERSION
from odradek.gateway.cli.main import cli
from odradek.gateway.errors import StartError
from odradek.gateway.quorum.stored import ELECTION_STATE, FOUNDING, IN_LOG
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.storage_backends.opener import open_store
from odradek.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartitionData,
    BeginQuorumEpochRequestTopicData,
)


class Controller:
    """Node 1 with both roles, on one directory and at one address."""

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        self._client_port = free_port()
        self.address = ("127.0.0.1", free_port())

    def voters(self, *nodes: int) -> str:
        """A setting with voters; the others do not run."""
        ports = {each: free_port() for each in nodes} | {1: self.address[1]}
        return ",".join(f"{each}@127.0.0.1:{ports[each]}" for each in nodes)

    def broker(
        self, env: Callable[[], FaultyEnvironment] = FaultyEnvironment, *, voters: str | None = None
    ) -> ThreadBroker:
        """The node with these voters; it founds a quorum without."""
        address = f"127.0.0.1:{self.address[1]}"
        named = {"bootstrap_servers": address} if voters is None else {"voters": voters}
        return ThreadBroker(
            f"lmdb://{self.data}",
            env,
            process_roles="broker,controller",
            controller_listener_names="CONTROLLER",
            listeners=f"PLAINTEXT://127.0.0.1:{self._client_port},CONTROLLER://{address}",
            **{f"controller_quorum_{name}": value for name, value in named.items()},
        )

    def properties(self) -> Mapping[str, str]:
        store = open_store(f"lmdb://{self.data}")
        try:
            return store.properties()
        finally:
            store.close()

    def founds_and_creates(self, topic: str) -> None:
        with self.broker() as broker:
            quorum = broker.broker.services.quorum
            await_that(lambda: quorum.active_epoch is not None)
            with RawClient(broker.address) as client:
                client.create_topic(topic)
            assert [each.key for each in quorum.replica.voters.voters.voters] == [quorum.core.me]

    def is_refused(self, message: str) -> None:
        with pytest.raises(BaseExceptionGroup) as refused:
            self.broker().start()
        assert refused.group_contains(StartError, match=message)


@pytest.fixture
def controller(tmp_path):
    return Controller(tmp_path)


def await_that(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def without_metadata_writes() -> FaultyEnvironment:
    env = FaultyEnvironment()
    env.no_writes.add("__cluster_metadata")
    return env


@pytest.mark.parametrize("is_converted", [False, True], ids=["new", "converted"])
def test_it_founds_its_quorum_after_a_crash_before_the_log_has_the_voters(controller, is_converted):
    if is_converted:
        with controller.broker(voters=controller.voters(1)) as broker, RawClient(broker.address) as client:
            client.create_topic("before")
    with controller.broker(without_metadata_writes) as broker:
        await_that(lambda: ELECTION_STATE in broker.env.store.properties())
        assert broker.broker.services.quorum.active_epoch is None
    assert controller.properties()[KRAFT_VERSION] == FOUNDING
    controller.founds_and_creates("after")
    assert controller.properties()[KRAFT_VERSION] == IN_LOG
    controller.founds_and_creates("again")


def test_it_founds_no_second_quorum_when_its_log_is_lost(controller):
    """Other voters may have the log. `odradek recover`, which makes sure that there are none, allows it again."""
    controller.founds_and_creates("topic")
    for directory in controller.data.glob("__cluster_metadata-0.*"):
        rmtree(directory)
    for _ in range(2):
        controller.is_refused("lacks the voters of its quorum, which it had: restore it .* or run `odradek recover ")
    recovered = CliRunner().invoke(cli, ["recover", "--data", str(controller.data), "--yes"])
    assert "is rebuilt" in recovered.output
    controller.founds_and_creates("topic")


def test_one_of_several_voters_of_the_settings_founds_no_quorum(controller):
    """It had followed another voter, which may have metadata that this one has lost, or never had."""
    begun = BeginQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=7)
    topic = BeginQuorumEpochRequestTopicData(topic_name=METADATA_KEY.topic, partitions=(begun,))
    with controller.broker(voters=controller.voters(1, 2)) as broker, RawClient(controller.address) as client:
        client.call(BeginQuorumEpochRequest(topics=(topic,)), 1)
        assert ELECTION_STATE in broker.env.store.properties()
    controller.is_refused("which was one of several")
