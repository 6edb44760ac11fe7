"""A quorum whose voters are in its log: one controller creates it, others are added and removed (KIP-853)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from uuid import UUID

import pytest
from gateway_brokers import ThreadBroker, free_port
from gateway_client import RawClient

from odradek.coordinator.quorum.values import ReplicaKey, State
from odradek.gateway.errors import StartError
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from odradek.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from odradek.wire.messages.update_raft_voter import Listener as UpdatedListener

OTHER_DIRECTORY = UUID(int=77)
PATIENT = {"controller_quorum_fetch_timeout_ms": 10_000, "controller_quorum_request_timeout_ms": 30_000}
"""So that a busy machine causes no election in the middle of a test."""


class Nodes:
    """Controllers with both roles, by their ids. `servers` are their bootstrap servers."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.ports: dict[int, int] = {}
        self.brokers: dict[int, ThreadBroker] = {}

    def port(self, node: int) -> int:
        return self.ports.setdefault(node, free_port())

    def start(self, node: int, *servers: int, **settings: object) -> ThreadBroker:
        listeners = f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{self.port(node)}"
        named = {"controller_quorum_bootstrap_servers": ",".join(f"127.0.0.1:{self.port(each)}" for each in servers)}
        broker = ThreadBroker(
            f"lmdb://{self._home}/node-{node}",
            node_id=node,
            process_roles="broker,controller",
            controller_listener_names="CONTROLLER",
            listeners=listeners,
            **(PATIENT | settings),
            **(named if servers else {}),
        )
        broker.start()
        self.brokers[node] = broker
        return broker

    def stop(self, node: int) -> None:
        self.brokers.pop(node).stop()

    def close(self) -> None:
        """Stops all at once; otherwise each would wait until the remaining nodes have elected a leader."""
        for broker in self.brokers.values():
            broker.begin_stop()
        for broker in self.brokers.values():
            broker.join()

    def quorum(self, node: int):
        return self.brokers[node].broker.services.quorum

    def key(self, node: int) -> ReplicaKey:
        return self.quorum(node).core.me

    def leader(self) -> int:
        return next(node for node in self.brokers if self.quorum(node).core.state is State.LEADER)

    def is_led(self) -> bool:
        return any(self.quorum(node).active_epoch is not None for node in self.brokers)

    def call(self, node: int, request, version: int):
        with RawClient(("127.0.0.1", self.port(node))) as client:
            return client.call(request, version)

    def add(self, node: int, at: int = 1, version: int = 1, **more) -> AddRaftVoterResponse:
        listeners = (Listener(name="CONTROLLER", host="127.0.0.1", port=self.port(node)),)
        key = self.key(node)
        asked = {"cluster_id": None, "voter_id": node, "voter_directory_id": key.directory_id, "listeners": listeners}
        return self.call(at, AddRaftVoterRequest(**(asked | more)), version)

    def remove(self, node: int, at: int = 1, **more) -> RemoveRaftVoterResponse:
        asked = {"cluster_id": None, "voter_id": node, "voter_directory_id": self.key(node).directory_id}
        return self.call(at, RemoveRaftVoterRequest(**(asked | more)), 0)

    def described(self, at: int = 1) -> DescribeQuorumResponse:
        of = DescribeQuorumRequestTopicData(
            topic_name=METADATA_KEY.topic, partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
        )
        return self.call(at, DescribeQuorumRequest(topics=(of,)), 2)

    def await_caught_up(self, node: int, at: int = 1) -> None:
        def is_caught_up() -> bool:
            part = self.described(at).topics[0].partitions[0]
            replicas = [*part.current_voters, *part.observers]
            return any(each.replica_id == node and each.last_caught_up_timestamp > 0 for each in replicas)

        await_that(is_caught_up)


def await_that(holds: Callable[[], object], timeout_s: float = 30) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


@contextmanager
def nodes_in(home: Path) -> Iterator[Nodes]:
    nodes = Nodes(home)
    try:
        yield nodes
    finally:
        nodes.close()


@pytest.fixture
def nodes(tmp_path):
    with nodes_in(tmp_path) as running:
        yield running


def ids(described: DescribeQuorumResponse) -> tuple[list[int], list[int]]:
    part = described.topics[0].partitions[0]
    return [each.replica_id for each in part.current_voters], [each.replica_id for each in part.observers]


def test_a_quorum_grows_and_shrinks_and_its_leader_goes(nodes):
    nodes.start(1, 1)
    await_that(lambda: nodes.quorum(1).active_epoch is not None)
    for node in (2, 3):
        nodes.start(node, 1)
        nodes.await_caught_up(node)
        assert nodes.add(node, version=node - 2).error_code == ErrorCode.NONE
    described = nodes.described()
    assert ids(described) == ([1, 2, 3], [])
    part = described.topics[0].partitions[0]
    assert [each.replica_directory_id for each in part.current_voters] == [nodes.key(each)[1] for each in (1, 2, 3)]
    listeners = [(each.node_id, each.listeners[0].name, each.listeners[0].port) for each in described.nodes]
    assert listeners == [(node, "CONTROLLER", nodes.port(node)) for node in (1, 2, 3)]
    controllers = nodes.call(1, DescribeClusterRequest(endpoint_type=2), 2)
    assert [(each.broker_id, each.port) for each in controllers.brokers] == list(nodes.ports.items())

    assert nodes.remove(1).error_code == ErrorCode.NONE
    await_that(lambda: any(nodes.quorum(node).active_epoch for node in (2, 3)))
    leader = nodes.leader()
    await_that(lambda: ids(nodes.described(leader)) == ([2, 3], [1]))
    assert nodes.add(1, at=1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    nodes.await_caught_up(1, leader)
    assert nodes.add(1, at=leader).error_code == ErrorCode.NONE


def test_voters_are_those_of_the_log_after_a_restart_and_in_snapshots(tmp_path):
    often = {"metadata_log_max_record_bytes_between_snapshots": 300, "metadata_max_retention_bytes": 0}
    # A voter updates its endpoints at the leader once the first time-out is over; a leader does not update its own.
    moved = {"controller_quorum_fetch_timeout_ms": 3000, "controller_quorum_election_timeout_ms": 60_000}
    with nodes_in(tmp_path) as nodes:
        nodes.start(1, 1)
        for node in (2, 3):
            nodes.start(node, 1)
            nodes.await_caught_up(node)
            assert nodes.add(node).error_code == ErrorCode.NONE
        keys, ports = [nodes.key(node) for node in (1, 2, 3)], {node: nodes.port(node) for node in (1, 2)}
        nodes.stop(3)  # a leader that stops resigns: not in favour of this node, which has to update its endpoints
    for _ in range(2):
        with nodes_in(tmp_path) as nodes:
            nodes.ports |= ports
            for node in (1, 2, 3):  # the third node has another port now, and updates its endpoints
                nodes.start(node, 1, 2, **often, **(moved if node == 3 else {}))
            await_that(nodes.is_led)
            await_that(partial(says, nodes, keys))
            with RawClient(nodes.brokers[1].address) as admin:
                for _ in range(5):
                    admin.create_topic(f"topic-{time.monotonic_ns()}")
            await_that(partial(is_trimmed, nodes))
            nodes.stop(3)


def says(nodes: Nodes, keys: list[ReplicaKey]) -> bool:
    """True if the leader's log has these voters with their endpoints."""
    named = {key: {"CONTROLLER": ("127.0.0.1", nodes.port(key.id))} for key in keys}
    return {each.key: each.endpoints for each in shown(nodes, nodes.leader())} == named


def is_trimmed(nodes: Nodes) -> bool:
    return all(nodes.quorum(node).replica.base is not None for node in nodes.brokers)


def shown(nodes: Nodes, node: int):
    return nodes.quorum(node).replica.voters.voters.voters


def test_what_add_and_remove_refuse(nodes):
    nodes.start(1, 1)
    nodes.start(2, 1)
    nodes.await_caught_up(2)
    another = (Listener(name="ANOTHER", host="127.0.0.1", port=1),)
    for more, error in (
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": UUID(int=0)}, ErrorCode.INVALID_REQUEST),
        ({"listeners": another}, ErrorCode.INVALID_REQUEST),
        ({"voter_id": 1}, ErrorCode.DUPLICATE_VOTER),
        ({"voter_directory_id": OTHER_DIRECTORY}, ErrorCode.REQUEST_TIMED_OUT),  # does not follow, or lags
        ({"listeners": (Listener(name="CONTROLLER", host="127.0.0.1", port=1),)}, ErrorCode.REQUEST_TIMED_OUT),
    ):
        assert nodes.add(2, **more).error_code == error, more
    for more, error in (
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": OTHER_DIRECTORY}, ErrorCode.VOTER_NOT_FOUND),
        ({}, ErrorCode.INVALID_REQUEST),  # the only voter
    ):
        assert nodes.remove(1, **more).error_code == error, more
    assert nodes.add(2, at=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ids(nodes.described()) == ([1], [2])


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"listeners": ()}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_feature": KRaftVersionFeature()}, ErrorCode.INVALID_REQUEST),
        ({"voter_directory_id": OTHER_DIRECTORY}, ErrorCode.VOTER_NOT_FOUND),
    ],
    ids=["moved", "cluster", "passed-epoch", "later-epoch", "no-voter", "no-listener", "version", "unknown"],
)
def test_a_voter_updates_where_it_listens(nodes, more, error):
    nodes.start(1, 1)
    await_that(lambda: nodes.brokers[1].broker.services.cluster_id)
    asked = {
        "cluster_id": None,
        "current_leader_epoch": 1,
        "voter_id": 1,
        "voter_directory_id": nodes.key(1).directory_id,
        "listeners": (UpdatedListener(name="CONTROLLER", host="elsewhere", port=7),),
        "kraft_version_feature": KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    }
    answer = nodes.call(1, UpdateRaftVoterRequest(**(asked | more)), 0)
    assert answer.error_code == error
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)
    [voter] = shown(nodes, 1)
    assert (voter.endpoints["CONTROLLER"][0] == "elsewhere") is (error is ErrorCode.NONE)


def levels(nodes: Nodes) -> list[int]:
    versions = nodes.call(1, ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    supported = [(each.min_version, each.max_version) for each in versions.supported_features if each.name == FEATURE]
    assert supported == [(0, 1)]
    return [each.max_version_level for each in versions.finalized_features if each.name == FEATURE]


FEATURE = "kraft.version"


def raising(level: int = 1, *, only_checked: bool = False) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=1)
    return UpdateFeaturesRequest(feature_updates=(update,), validate_only=only_checked, timeout_ms=1000)


def test_voters_of_the_settings_are_written_into_the_log_when_kraft_version_is_raised(nodes):
    voters = ",".join(f"{node}@127.0.0.1:{nodes.port(node)}" for node in (1, 2))
    for node in (1, 2):
        nodes.start(node, controller_quorum_voters=voters)
    await_that(lambda: any(nodes.quorum(node).active_epoch for node in (1, 2)))
    leader = nodes.leader()
    nodes.await_caught_up(3 - leader, leader)
    assert levels(nodes) == []
    assert nodes.remove(1, at=leader).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert nodes.call(leader, raising(2), 1).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert nodes.call(leader, raising(only_checked=True), 1).error_code == ErrorCode.NONE
    assert levels(nodes) == []
    assert nodes.call(leader, raising(), 1).error_code == ErrorCode.NONE
    assert nodes.call(leader, raising(), 1).error_code == ErrorCode.NONE
    assert nodes.call(leader, raising(0), 1).error_code == ErrorCode.INVALID_UPDATE_VERSION
    await_that(lambda: levels(nodes) == [1])
    assert nodes.remove(leader, at=leader).error_code == ErrorCode.NONE
    await_that(lambda: nodes.quorum(3 - leader).active_epoch is not None)
    assert ids(nodes.described(3 - leader))[0] == [3 - leader]


def test_a_cluster_of_one_has_the_voters_of_its_settings(nodes):
    nodes.start(1, controller_quorum_voters=f"1@127.0.0.1:{nodes.port(1)}")
    assert levels(nodes) == []
    assert nodes.call(1, raising(), 1).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert nodes.remove(1).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_cluster_of_one_becomes_one_that_can_grow_and_not_the_other_way(tmp_path):
    with nodes_in(tmp_path) as nodes:
        nodes.start(1)
    with nodes_in(tmp_path) as nodes:
        nodes.start(1, 1)
        await_that(lambda: nodes.quorum(1).active_epoch is not None)
        assert ids(nodes.described())[0] == [1]
    with nodes_in(tmp_path) as nodes, pytest.raises(BaseExceptionGroup) as refused:
        nodes.start(1)
    assert refused.group_contains(StartError, match="quorum[.]bootstrap[.]servers")


def keys_at_the_leader(nodes: Nodes) -> list[ReplicaKey]:
    """The voters in the leader's log; none while there is no leader."""
    return next(
        ([each.key for each in shown(nodes, node)] for node in nodes.brokers if nodes.quorum(node).active_epoch), []
    )


JOINS = {"controller_quorum_auto_join_enable": True, "controller_quorum_fetch_timeout_ms": 1000}


def test_a_controller_joins_by_itself_and_replaces_the_directory_that_it_has_lost(tmp_path):
    with nodes_in(tmp_path) as nodes:
        nodes.start(1, 1)
        for node in (2, 3):
            nodes.start(node, 1, **JOINS)
        await_that(lambda: [each.key for each in shown(nodes, 1)] == [nodes.key(node) for node in (1, 2, 3)])
        ports, old = {1: nodes.port(1), 2: nodes.port(2)}, nodes.key(3)
    rmtree(tmp_path / "node-3")
    with nodes_in(tmp_path) as nodes:
        nodes.ports |= ports
        for node in (1, 2, 3):
            nodes.start(node, 1, 2, **(JOINS if node == 3 else {}))
        await_that(nodes.is_led)
        await_that(lambda: nodes.key(3) in keys_at_the_leader(nodes))
        await_that(lambda: old not in keys_at_the_leader(nodes))


def test_a_controller_whose_voters_are_fixed_does_not_ask_to_join(nodes):
    voters = ",".join(f"{node}@127.0.0.1:{nodes.port(node)}" for node in (1, 2))
    for node in (1, 2):
        nodes.start(node, controller_quorum_voters=voters, **JOINS)
    await_that(nodes.is_led)
    assert [nodes.quorum(node).settings.joins for node in (1, 2)] == [False, False]
