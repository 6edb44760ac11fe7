"""Requests of other quorum nodes to a controller listener: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch."""

import time
from uuid import UUID

import pytest
from gateway_brokers import ThreadBroker, free_port
from gateway_client import RawClient

from odradek.coordinator.metadata.image.checkpoint import SnapshotReader
from odradek.coordinator.quorum.values import SnapshotId
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import begin_quorum_epoch as begin
from odradek.wire.messages import end_quorum_epoch as end
from odradek.wire.messages import fetch_snapshot as snapshots
from odradek.wire.messages import vote as voting
from odradek.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from odradek.wire.messages.fetch_snapshot import FetchSnapshotRequest
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import ControlType, read_control_marker

TOPIC = METADATA_KEY.topic
OBSERVER = 7


@pytest.fixture(scope="module")
def nodes():
    """A client of the controller listener of a node that is the only voter, and the node's cluster id."""
    controller_port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{controller_port}",
        "controller_quorum_voters": f"1@127.0.0.1:{controller_port}",
        "process_roles": "broker,controller",
    }
    with ThreadBroker(**settings) as broker, RawClient(("127.0.0.1", controller_port)) as client:
        yield client, broker.broker.services.cluster_id


def vote(epoch: int, topic: str = TOPIC, cluster_id: str | None = None) -> voting.VoteRequest:
    part = voting.VoteRequestPartitionData(replica_epoch=epoch, replica_id=2, last_offset_epoch=9, last_offset=99)
    of_topic = voting.VoteRequestTopicData(topic_name=topic, partitions=(part,))
    return voting.VoteRequest(cluster_id=cluster_id, voter_id=1, topics=(of_topic,))


def fetch(
    offset: int, last_epoch: int, epoch: int = 1, topic_id: UUID = METADATA_KEY.topic_id, version: int = 18
) -> FetchRequest:
    part = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1_000_000,
    )
    topic = FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=(part,))
    who = {"replica_state": ReplicaState(replica_id=OBSERVER)} if version >= 15 else {"replica_id": OBSERVER}
    return FetchRequest(**who, max_bytes=1_000_000, topics=(topic,))


EPOCH_AGAIN = 2
BETWEEN_BYTES = 300
TRIM_LIMIT_S = 60


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory):
    """A client of a node whose log was trimmed, the id of its snapshot, and the snapshot's length.

    The node was restarted since: it writes no more snapshots, and leads epoch 2.
    """
    controller_port, port = free_port(), free_port()
    storage = f"lmdb://{tmp_path_factory.mktemp('trimmed')}/data"
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller_quorum_voters": f"1@127.0.0.1:{controller_port}",
        "process_roles": "broker,controller",
        "controller_quorum_fetch_snapshot_max_bytes": 1000,
    }
    often = {"metadata_log_max_record_bytes_between_snapshots": BETWEEN_BYTES, "metadata_max_retention_bytes": 0}
    with ThreadBroker(storage, **settings, **often) as broker, RawClient(("127.0.0.1", port)) as admin:
        for number in range(20):
            admin.create_topic(f"topic-{number}")
        await_trimmed(broker)
    with ThreadBroker(storage, **settings) as broker, RawClient(("127.0.0.1", controller_port)) as client:
        services = broker.broker.services
        snapshot, kept = list(services.quorum.replica.snapshots.known.items())[-1]
        yield client, snapshot, kept.size_bytes, services


def await_trimmed(broker: ThreadBroker) -> None:
    """Waits for the snapshots that are due, which are written in the background, and for the end of the trimming."""
    replica = broker.broker.services.quorum.replica

    def is_trimmed() -> bool:
        newest = replica.snapshots.newest
        is_behind = replica.unsnapshotted_bytes < BETWEEN_BYTES
        return is_behind and newest is not None and newest.end_offset == replica.log.log_start_offset

    give_up_s = time.monotonic() + TRIM_LIMIT_S
    while not broker.in_trio(is_trimmed):
        assert time.monotonic() < give_up_s, "the log is not trimmed"
        time.sleep(0.01)


def download(
    snapshot: SnapshotId,
    position: int,
    max_bytes: int = 2**31 - 1,
    epoch: int = EPOCH_AGAIN,
    topic: str = TOPIC,
    **more: str,
) -> FetchSnapshotRequest:
    part = snapshots.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=snapshots.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
    )
    of_topic = snapshots.FetchSnapshotRequestTopicSnapshot(name=topic, partitions=(part,))
    return FetchSnapshotRequest(replica_id=OBSERVER, max_bytes=max_bytes, topics=(of_topic,), **more)


def downloaded(client: RawClient, request: FetchSnapshotRequest, version: int = 1):
    return client.call(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_comes_in_parts_of_any_length(trimmed, version):
    client, snapshot, size_bytes, services = trimmed
    read = b""
    while len(read) < size_bytes:
        part = downloaded(client, download(snapshot, len(read), max_bytes=333), version)
        assert (part.error_code, part.size, part.position) == (ErrorCode.NONE, size_bytes, len(read))
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, EPOCH_AGAIN)
        assert 0 < len(part.unaligned_records) <= 333
        read += bytes(part.unaligned_records)
    reader = SnapshotReader()
    reader.add(read)
    assert reader.image(*snapshot).cluster_id == services.cluster_id


def test_a_part_is_never_longer_than_the_settings_allow(trimmed):
    client, snapshot, _, _ = trimmed
    assert len(downloaded(client, download(snapshot, 0)).unaligned_records) == 1000
    assert len(downloaded(client, download(snapshot, 5, max_bytes=1)).unaligned_records) == 1
    for max_bytes in (0, -1, -(2**31)):
        assert not downloaded(client, download(snapshot, 0, max_bytes=max_bytes)).unaligned_records


@pytest.mark.parametrize("position", [-1, -(2**63), "size", 2**63 - 1])
def test_a_position_outside_the_snapshot_is_refused(trimmed, position):
    client, snapshot, size_bytes, _ = trimmed
    part = downloaded(client, download(snapshot, size_bytes if position == "size" else position))
    assert part.error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert not part.unaligned_records


@pytest.mark.parametrize("end_offset", [-1, 0, 2**63 - 1])
def test_an_unknown_snapshot_is_refused(trimmed, end_offset):
    client, snapshot, _, _ = trimmed
    assert downloaded(client, download(SnapshotId(end_offset, 1), 0)).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    other = SnapshotId(snapshot.end_offset, -5)
    assert downloaded(client, download(other, 0)).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_download_is_held_to_the_epoch_the_log_and_the_cluster(trimmed):
    client, snapshot, _, _ = trimmed
    assert downloaded(client, download(snapshot, 0, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert downloaded(client, download(snapshot, 0, epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    other = downloaded(client, download(snapshot, 0, topic="other"))
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = client.call(download(snapshot, 0, cluster_id="other"), 1)
    assert refused.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert client.call(FetchSnapshotRequest(), 1).error_code == ErrorCode.INVALID_REQUEST


def test_a_fetch_below_the_log_start_names_the_snapshot(trimmed):
    client, snapshot, _, services = trimmed
    log_start = services.quorum.replica.log.log_start_offset
    for offset, last_epoch in ((0, 0), (log_start - 1, 1), (log_start, 0)):
        part = fetched(client, fetch(offset, last_epoch, epoch=EPOCH_AGAIN))
        assert (part.error_code, part.snapshot_id.end_offset, part.snapshot_id.epoch) == (ErrorCode.NONE, *snapshot)
        assert part.log_start_offset == log_start
        assert not part.records
    part = fetched(client, fetch(log_start, 1, epoch=EPOCH_AGAIN))
    assert (part.error_code, part.snapshot_id.end_offset) == (ErrorCode.NONE, -1)


def fetched(client: RawClient, request: FetchRequest, version: int = 18) -> PartitionData:
    return client.call(request, version).responses[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_vote_of_a_passed_epoch_is_fenced_with_the_leader_in_the_answer(nodes, version):
    part = nodes[0].call(vote(0), version).topics[0].partitions[0]
    assert (part.error_code, part.leader_id, part.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 1)
    assert not part.vote_granted


def test_a_candidate_that_is_no_voter_gets_no_vote(nodes):
    part = nodes[0].call(vote(1), 2).topics[0].partitions[0]
    assert (part.error_code, part.vote_granted) == (ErrorCode.NONE, False)


def begun(epoch: int, leader_id: int) -> begin.BeginQuorumEpochRequest:
    part = begin.BeginQuorumEpochRequestPartitionData(leader_id=leader_id, leader_epoch=epoch)
    of_topic = begin.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(part,))
    return begin.BeginQuorumEpochRequest(voter_id=1, topics=(of_topic,))


def test_no_peer_can_use_up_the_epochs(nodes, caplog):
    client, _ = nodes
    for request in (vote(2**31 - 1), begun(2**31 - 1, 2)):
        part = client.call(request, 1).topics[0].partitions[0]
        assert (part.error_code, part.leader_id, part.leader_epoch) == (ErrorCode.INCONSISTENT_VOTER_SET, 1, 1)
    lines = [each.getMessage() for each in caplog.records if "request of the quorum refused" in each.getMessage()]
    assert [("api=VOTE " in line, f"epoch={2**31 - 1}" in line, "peer=127.0.0.1:" in line) for line in lines] == [
        (True, True, True),
        (False, True, True),
    ]
    assert fetched(client, fetch(0, 0)).error_code == ErrorCode.NONE


def test_requests_about_another_log_or_cluster_are_refused(nodes):
    client, cluster_id = nodes
    assert client.call(vote(1, "other"), 2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.call(vote(1, cluster_id="other"), 2).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert client.call(vote(1, cluster_id=cluster_id), 2).error_code == ErrorCode.NONE
    assert fetched(client, fetch(0, 0, topic_id=UUID(int=9))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_waits_no_longer_than_its_sender_while_the_election_state_cannot_be_stored():
    """Otherwise every attempt of another node would leave a connection and a task on this one."""
    controller_port, other_port = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{controller_port}",
        "controller_quorum_voters": f"1@127.0.0.1:{controller_port},2@127.0.0.1:{other_port}",
        "process_roles": "broker,controller",
        "controller_quorum_request_timeout_ms": 200,
    }
    with ThreadBroker(**settings) as broker:
        broker.env.no_writes.add("properties")
        for epoch in (7, 8):
            with RawClient(("127.0.0.1", controller_port)) as client:
                client.send(vote(epoch), 2)
                assert client.is_closed_by_broker()
        broker.env.no_writes.clear()
        with RawClient(("127.0.0.1", controller_port)) as client:
            part = client.call(vote(9), 2).topics[0].partitions[0]
            assert (part.error_code, part.leader_epoch) == (ErrorCode.NONE, 9)


@pytest.mark.parametrize("version", [0, 1])
def test_leaders_of_passed_epochs_are_fenced(nodes, version):
    begun = begin.BeginQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=0)
    of_begin = begin.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(begun,))
    ended = end.EndQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=0)
    of_end = end.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=(ended,))
    for request in (begin.BeginQuorumEpochRequest(topics=(of_begin,)), end.EndQuorumEpochRequest(topics=(of_end,))):
        part = nodes[0].call(request, version).topics[0].partitions[0]
        assert (part.error_code, part.leader_id, part.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 1)


@pytest.mark.parametrize("version", range(12, 19))
def test_an_observer_fetches_the_log_from_the_leaders_own_record_on(nodes, version):
    part = fetched(nodes[0], fetch(0, 0, version=version), version)
    assert part.error_code == ErrorCode.NONE
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 1)
    records = memoryview(part.records)
    first = next(iter_headers(records))
    assert (first.base_offset, first.partition_leader_epoch, first.is_control) == (0, 1, True)
    assert read_control_marker(records, first).type is ControlType.LEADER_CHANGE
    assert list(iter_headers(records))[-1].next_offset == part.high_watermark


def test_a_fetch_is_held_to_the_epoch_and_to_the_log(nodes):
    client, _ = nodes
    assert fetched(client, fetch(0, 0, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetched(client, fetch(0, 0, epoch=2)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    beyond = fetched(client, fetch(1000, 1))
    end_offset = fetched(client, fetch(0, 0)).high_watermark
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (1, end_offset)
    assert not beyond.records


def test_the_quorum_is_described_with_its_observers(nodes):
    client, _ = nodes
    end_offset = fetched(client, fetch(0, 0)).high_watermark
    fetched(client, fetch(end_offset, 1))
    asked = DescribeQuorumRequestTopicData(
        topic_name=TOPIC, partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
    )
    part = client.call(DescribeQuorumRequest(topics=(asked,)), 2).topics[0].partitions[0]
    assert (part.leader_id, part.leader_epoch, part.high_watermark) == (1, 1, end_offset)
    assert [each.replica_id for each in part.current_voters] == [1]
    [observer] = part.observers
    assert (observer.replica_id, observer.log_end_offset) == (OBSERVER, end_offset)
    assert observer.last_caught_up_timestamp == observer.last_fetch_timestamp > 0
