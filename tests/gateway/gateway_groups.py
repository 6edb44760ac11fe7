"""Requests to the group coordinator that several tests use."""

from gateway_client import RawClient

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


def find(client: RawClient, group: str) -> int:
    """The error code of FindCoordinator, which creates the offsets topic."""
    return client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))).coordinators[0].error_code


def offset_commit(group: str, offset: int, topic: str = "t", partition: int = 0, **fields) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata="note"
    )
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    fields.setdefault("generation_id_or_member_epoch", -1)
    return OffsetCommitRequest(group_id=group, topics=topics, **fields)


def commit_error(client: RawClient, group: str, offset: int, topic: str = "t", partition: int = 0) -> int:
    return client.call(offset_commit(group, offset, topic, partition)).topics[0].partitions[0].error_code


def committed(client: RawClient, group: str) -> dict[tuple[str, int], int]:
    """Every offset that the group has committed."""
    while True:
        [answer] = client.call(
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),))
        ).groups
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
    assert answer.error_code == 0, answer
    return {
        (topic.name, part.partition_index): part.committed_offset
        for topic in answer.topics
        for part in topic.partitions
    }


def join_request(group: str, member_id: str = "", **fields) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=fields.pop("session_timeout_ms", 30_000),
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"meta"),),
        **fields,
    )


def joined(client: RawClient, group: str, **fields) -> JoinGroupResponse:
    """Joins as clients do, in two steps if the broker requires it."""
    answer = client.call(join_request(group, **fields))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = client.call(join_request(group, answer.member_id, **fields))
    assert answer.error_code == 0, answer
    return answer


def described(client: RawClient, group: str) -> DescribedGroup:
    return client.call(DescribeGroupsRequest(groups=(group,))).groups[0]


def delete_topic(client: RawClient, name: str) -> None:
    [deleted] = client.call(DeleteTopicsRequest(topic_names=(name,), timeout_ms=30_000)).responses
    assert deleted.error_code == 0, deleted
