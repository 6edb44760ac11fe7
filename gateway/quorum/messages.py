"""Converts the quorum's requests and responses to Kafka's messages, and back."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from odradek.coordinator.quorum.values import (
    Answer,
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    Request,
    SnapshotId,
    Vote,
    VoteAnswer,
)
from odradek.coordinator.quorum.voters import Voter
from odradek.gateway.errors import received_error
from odradek.partitions.model import PartitionKey
from odradek.wire.messages import begin_quorum_epoch as begin
from odradek.wire.messages import end_quorum_epoch as end
from odradek.wire.messages import fetch as fetching
from odradek.wire.messages import fetch_snapshot as snapshots
from odradek.wire.messages import update_raft_voter as updating
from odradek.wire.messages import vote as voting
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.vote import VoteRequest, VoteResponse
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import ZERO_UUID, Records

VOTE_VERSION: Final = 2
BEGIN_VERSION: Final = 1
END_VERSION: Final = 1
FETCH_VERSION: Final = 18
FETCH_SNAPSHOT_VERSION: Final = 1


class Sent(NamedTuple):
    """A message and its version."""

    message: Message
    version: int


class Taken(NamedTuple):
    """A response, the records in it, and the nodes' endpoints in it."""

    answer: Answer
    records: memoryview | None = None
    endpoints: Mapping[int, tuple[str, int]] = MappingProxyType({})


class QuorumMessages:
    """The messages about the metadata log. An empty cluster id means that none is known.

    `endpoints` are this node's listeners for controllers, which it announces when it leads.
    """

    def __init__(
        self,
        key: PartitionKey,
        max_bytes: int,
        max_snapshot_bytes: int,
        max_wait_ms: int,
        endpoints: Mapping[str, tuple[str, int]],
    ) -> None:
        self._endpoints = endpoints
        self._max_snapshot_bytes = max_snapshot_bytes
        self._max_wait_ms = max_wait_ms
        self._key = key
        self._max_bytes = max_bytes

    def request(self, request: Request, to: ReplicaKey, cluster_id: str) -> Sent:
        """The message and version to send for `request`."""
        if isinstance(request, Vote):
            return Sent(self._vote(request, to, cluster_id), VOTE_VERSION)
        if isinstance(request, Fetch):
            return Sent(self._fetch(request, cluster_id), FETCH_VERSION)
        if isinstance(request, FetchSnapshot):
            return Sent(self._fetch_snapshot(request, cluster_id), FETCH_SNAPSHOT_VERSION)
        topic = self._key.topic
        if isinstance(request, BeginEpoch):
            begun = begin.BeginQuorumEpochRequestPartitionData(
                voter_directory_id=to.directory_id, leader_id=request.leader_id, leader_epoch=request.epoch
            )
            of_begin = begin.BeginQuorumEpochRequestTopicData(topic_name=topic, partitions=(begun,))
            own = [begin.LeaderEndpoint(name=name, host=at[0], port=at[1]) for name, at in self._endpoints.items()]
            message = begin.BeginQuorumEpochRequest(
                cluster_id=cluster_id or None, voter_id=to.id, topics=(of_begin,), leader_endpoints=tuple(own)
            )
            return Sent(message, BEGIN_VERSION)
        candidates = [
            end.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in request.successors
        ]
        ended = end.EndQuorumEpochRequestPartitionData(
            leader_id=request.leader_id, leader_epoch=request.epoch, preferred_candidates=tuple(candidates)
        )
        of_end = end.EndQuorumEpochRequestTopicData(topic_name=topic, partitions=(ended,))
        return Sent(end.EndQuorumEpochRequest(cluster_id=cluster_id or None, topics=(of_end,)), END_VERSION)

    def _vote(self, request: Vote, to: ReplicaKey, cluster_id: str) -> VoteRequest:
        part = voting.VoteRequestPartitionData(
            replica_epoch=request.epoch,
            replica_id=request.candidate.id,
            replica_directory_id=request.candidate.directory_id,
            voter_directory_id=to.directory_id,
            last_offset_epoch=request.last_epoch,
            last_offset=request.end_offset,
            pre_vote=request.pre_vote,
        )
        topic = voting.VoteRequestTopicData(topic_name=self._key.topic, partitions=(part,))
        return VoteRequest(cluster_id=cluster_id or None, voter_id=to.id, topics=(topic,))

    def _fetch(self, request: Fetch, cluster_id: str) -> FetchRequest:
        part = FetchPartition(
            partition=self._key.index,
            current_leader_epoch=request.epoch,
            fetch_offset=request.offset,
            last_fetched_epoch=request.last_epoch,
            log_start_offset=0,
            partition_max_bytes=self._max_bytes,
            replica_directory_id=request.replica.directory_id,
            high_watermark=request.high_watermark,
        )
        return FetchRequest(
            cluster_id=cluster_id or None,
            replica_state=fetching.ReplicaState(replica_id=request.replica.id),
            max_wait_ms=self._max_wait_ms,
            min_bytes=0,
            max_bytes=self._max_bytes,
            topics=(FetchTopic(topic_id=self._key.topic_id, partitions=(part,)),),
        )

    def _fetch_snapshot(self, request: FetchSnapshot, cluster_id: str) -> snapshots.FetchSnapshotRequest:
        part = snapshots.FetchSnapshotRequestPartitionSnapshot(
            partition=self._key.index,
            current_leader_epoch=request.epoch,
            snapshot_id=_snapshot_id(request.snapshot),
            position=request.position,
            replica_directory_id=request.replica.directory_id,
        )
        topic = snapshots.FetchSnapshotRequestTopicSnapshot(name=self._key.topic, partitions=(part,))
        return snapshots.FetchSnapshotRequest(
            cluster_id=cluster_id or None,
            replica_id=request.replica.id,
            max_bytes=self._max_snapshot_bytes,
            topics=(topic,),
        )

    @staticmethod
    def update(voter: Voter, leader_epoch: int, cluster_id: str) -> updating.UpdateRaftVoterRequest:
        """The request by which a voter reports its data to the leader of an epoch."""
        low, high = voter.kraft_versions
        listeners = [
            updating.Listener(name=name, host=at[0], port=at[1]) for name, at in sorted(voter.endpoints.items())
        ]
        return updating.UpdateRaftVoterRequest(
            cluster_id=cluster_id or None,
            current_leader_epoch=leader_epoch,
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            listeners=tuple(listeners),
            kraft_version_feature=updating.KRaftVersionFeature(min_supported_version=low, max_supported_version=high),
        )

    def taken(self, response: Message) -> Taken | None:
        """The response's content; None if it has only a top-level error."""
        if isinstance(response, VoteResponse):
            return _of_vote(response)
        if isinstance(response, FetchResponse):
            return _of_fetch(response)
        if isinstance(response, snapshots.FetchSnapshotResponse):
            return _of_fetch_snapshot(response)
        assert isinstance(response, begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse)
        for topic in response.topics:
            for part in topic.partitions:
                return Taken(EpochAnswer(received_error(part.error_code), part.leader_epoch, part.leader_id))
        return None

    def is_about(self, asked: Sequence[tuple[str, Sequence[int]]]) -> bool:
        """True if a request is about this log only."""
        return [(topic, list(indexes)) for topic, indexes in asked] == [(self._key.topic, [self._key.index])]

    # Requests of other nodes

    def asked_vote(self, request: VoteRequest) -> Vote | None:
        """The content of the request; None if it is about another log."""
        if not self.is_about(
            [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
        ):
            return None
        part = request.topics[0].partitions[0]
        candidate = ReplicaKey(part.replica_id, part.replica_directory_id)
        voter = ReplicaKey(request.voter_id, part.voter_directory_id)
        return Vote(part.replica_epoch, candidate, part.last_offset_epoch, part.last_offset, part.pre_vote, voter)

    def vote_response(self, answer: VoteAnswer) -> VoteResponse:
        """The response to a candidate."""
        part = voting.VoteResponsePartitionData(
            partition_index=self._key.index,
            error_code=answer.error,
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
            vote_granted=answer.granted,
        )
        topic = voting.VoteResponseTopicData(topic_name=self._key.topic, partitions=(part,))
        return VoteResponse(topics=(topic,))

    def asked_begin(self, request: begin.BeginQuorumEpochRequest) -> BeginEpoch | None:
        """The content of the request; None if it is about another log."""
        if not self.is_about(
            [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
        ):
            return None
        part = request.topics[0].partitions[0]
        voter = ReplicaKey(request.voter_id, part.voter_directory_id)
        return BeginEpoch(part.leader_epoch, part.leader_id, voter)

    def begin_response(self, answer: EpochAnswer) -> begin.BeginQuorumEpochResponse:
        """The response to a leader's BeginQuorumEpoch."""
        part = begin.BeginQuorumEpochResponsePartitionData(
            partition_index=self._key.index,
            error_code=answer.error,
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
        )
        topic = begin.BeginQuorumEpochResponseTopicData(topic_name=self._key.topic, partitions=(part,))
        return begin.BeginQuorumEpochResponse(topics=(topic,))

    def asked_end(self, request: end.EndQuorumEpochRequest) -> EndEpoch | None:
        """The content of the request; None if it is about another log."""
        if not self.is_about(
            [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
        ):
            return None
        part = request.topics[0].partitions[0]
        named = [ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in part.preferred_candidates]
        return EndEpoch(
            part.leader_epoch, part.leader_id, named or [ReplicaKey(each) for each in part.preferred_successors]
        )

    def end_response(self, answer: EpochAnswer) -> end.EndQuorumEpochResponse:
        """The response to a leader that has resigned."""
        part = end.EndQuorumEpochResponsePartitionData(
            partition_index=self._key.index,
            error_code=answer.error,
            leader_id=answer.leader_id,
            leader_epoch=answer.epoch,
        )
        topic = end.EndQuorumEpochResponseTopicData(topic_name=self._key.topic, partitions=(part,))
        return end.EndQuorumEpochResponse(topics=(topic,))

    def asked_fetch(self, request: FetchRequest) -> Fetch | None:
        """The content of the request; None if it is about another log. Does not check that a replica sent it."""
        if not self.is_about_id(request):
            return None
        part = request.topics[0].partitions[0]
        node = request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
        replica = ReplicaKey(node, part.replica_directory_id)
        return Fetch(
            part.current_leader_epoch, replica, part.fetch_offset, part.last_fetched_epoch, part.high_watermark
        )

    def asked_fetch_snapshot(self, request: snapshots.FetchSnapshotRequest) -> FetchSnapshot | None:
        """A replica's request for a part of a snapshot; None if it is about another log."""
        if not self.is_about([(topic.name, [each.partition for each in topic.partitions]) for topic in request.topics]):
            return None
        part = request.topics[0].partitions[0]
        replica = ReplicaKey(request.replica_id, part.replica_directory_id)
        snapshot = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        return FetchSnapshot(part.current_leader_epoch, replica, snapshot, part.position)

    def fetch_snapshot_response(
        self, answer: FetchSnapshotAnswer, records: Records, leader: tuple[str, int] | None = None
    ) -> snapshots.FetchSnapshotResponse:
        """The response to a replica that downloads a snapshot; `leader` as in `fetch_response`, from version 1 on."""
        part = snapshots.FetchSnapshotResponsePartitionSnapshot(
            index=self._key.index,
            error_code=answer.error,
            snapshot_id=_snapshot_id(answer.snapshot),
            current_leader=snapshots.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
            size=answer.size,
            position=answer.position,
            unaligned_records=records,
        )
        topic = snapshots.FetchSnapshotResponseTopicSnapshot(name=self._key.topic, partitions=(part,))
        endpoints: tuple[snapshots.NodeEndpoint, ...] = ()
        if leader is not None:
            endpoints = (snapshots.NodeEndpoint(node_id=answer.leader_id, host=leader[0], port=leader[1]),)
        return snapshots.FetchSnapshotResponse(topics=(topic,), node_endpoints=endpoints)

    def is_about_id(self, request: FetchRequest) -> bool:
        """True if a Fetch is about this log only; it has the topic's id, or in old versions its name."""
        names = [
            (topic.topic or self._key.topic, [each.partition for each in topic.partitions]) for topic in request.topics
        ]
        return self.is_about(names) and request.topics[0].topic_id in (ZERO_UUID, self._key.topic_id)

    def fetch_response(
        self, answer: FetchAnswer, records: Records, leader: tuple[str, int] | None = None, log_start_offset: int = 0
    ) -> FetchResponse:
        """The response to a replica; `leader` is the leader's endpoint, for versions that contain it (16 and later)."""
        diverging = answer.diverging
        part = fetching.PartitionData(
            partition_index=self._key.index,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.high_watermark,
            log_start_offset=log_start_offset,
            snapshot_id=fetching.SnapshotId()
            if answer.snapshot is None
            else fetching.SnapshotId(end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch),
            diverging_epoch=fetching.EpochEndOffset()
            if diverging is None
            else fetching.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset),
            current_leader=fetching.LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.epoch),
            records=records,
        )
        topic_id: UUID = self._key.topic_id
        topic = fetching.FetchableTopicResponse(topic=self._key.topic, topic_id=topic_id, partitions=(part,))
        endpoints: tuple[fetching.NodeEndpoint, ...] = ()
        if leader is not None:
            endpoints = (fetching.NodeEndpoint(node_id=answer.leader_id, host=leader[0], port=leader[1]),)
        return FetchResponse(responses=(topic,), node_endpoints=endpoints)


def _of_vote(response: VoteResponse) -> Taken | None:
    for topic in response.topics:
        for part in topic.partitions:
            error = received_error(part.error_code)
            return Taken(VoteAnswer(error, part.leader_epoch, part.leader_id, part.vote_granted))
    return None


def _of_fetch(response: FetchResponse) -> Taken | None:
    for topic in response.responses:
        for part in topic.partitions:
            leader, end = part.current_leader, part.diverging_epoch
            diverging = None if end.epoch < 0 else EpochEnd(end.epoch, end.end_offset)
            error = received_error(part.error_code)
            snapshot = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
            answer = FetchAnswer(
                error,
                leader.leader_epoch,
                leader.leader_id,
                part.high_watermark,
                diverging,
                None if min(snapshot) < 0 else snapshot,
            )
            endpoints = {each.node_id: (each.host, each.port) for each in response.node_endpoints}
            return Taken(answer, _view(part.records), endpoints)
    return None


def _of_fetch_snapshot(response: snapshots.FetchSnapshotResponse) -> Taken | None:
    for topic in response.topics:
        for part in topic.partitions:
            leader, records = part.current_leader, _view(part.unaligned_records)
            answer = FetchSnapshotAnswer(
                received_error(part.error_code),
                leader.leader_epoch,
                leader.leader_id,
                SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
                part.size,
                part.position,
                0 if records is None else len(records),
            )
            endpoints = {each.node_id: (each.host, each.port) for each in response.node_endpoints}
            return Taken(answer, records, endpoints)
    return None


def _snapshot_id(snapshot: SnapshotId) -> snapshots.SnapshotId:
    return snapshots.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)


def _view(records: Records) -> memoryview | None:
    return memoryview(records) if isinstance(records, bytes | bytearray | memoryview) else None
