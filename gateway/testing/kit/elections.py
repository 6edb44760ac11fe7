"""Leaders of a cluster move, by the requests of Kafka's tools."""

from typing import Final

from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.lookup import check, retried
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

METADATA_VERSION: Final = 12
REASSIGN_VERSION: Final = 0
ELECT_VERSION: Final = 2
PREFERRED: Final = 0
SOON: Final = frozenset(
    {
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of an election that is possible a little later."""


async def move_leader(access: Access, topic: str, partition: int, to: int | None) -> int:
    """Let another in-sync replica lead a partition, `to` or the next one; returns its id once it leads.

    The replicas are put into another order, and the preferred leader is elected. Raises LookupError if there is no such
    partition or replica, RuntimeError if the partition has no other in-sync replica.
    """
    before = await retried(access, lambda: _partition(access, topic, partition))
    chosen = _chosen(f"{topic}-{partition}", before, to)
    if chosen == before.leader_id:
        return chosen
    others = [each for each in before.replica_nodes if each != chosen]
    await retried(access, lambda: _reassign(access, topic, partition, (chosen, *others)))
    await retried(access, lambda: _elect(access, topic, partition, chosen))
    return chosen


def _chosen(name: str, part: MetadataResponsePartition, to: int | None) -> int:
    if to is not None and to not in part.replica_nodes:
        raise LookupError(
            f"broker {to} has no replica of {name}; these have: {', '.join(map(str, part.replica_nodes))}"
        )
    others = [each for each in part.isr_nodes if each != part.leader_id]
    if to is None and not others:
        raise RuntimeError(f"{name} has no other in-sync replica that could lead it")
    return others[0] if to is None else to


async def _partition(access: Access, topic: str, partition: int) -> MetadataResponsePartition:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    [found] = (await access.ask(request, MetadataResponse, METADATA_VERSION)).topics
    part = next((each for each in found.partitions if each.partition_index == partition), None)
    if part is None:
        raise LookupError(f"there is no partition {topic}-{partition}")
    check(part.error_code, f"{topic}-{partition}")
    return part


async def _reassign(access: Access, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
    part = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name=topic, partitions=(part,)),))
    response = await access.ask(request, AlterPartitionReassignmentsResponse, REASSIGN_VERSION)
    what = f"the replicas of {topic}-{partition} keep their order"
    check(response.error_code, what, response.error_message)
    [result] = response.responses[0].partitions
    check(result.error_code, what, result.error_message)


async def _elect(access: Access, topic: str, partition: int, leader: int) -> None:
    """Returns when metadata have the new leader; raises TemporaryError until then."""
    if (await _partition(access, topic, partition)).leader_id == leader:
        return
    named = TopicPartitions(topic=topic, partitions=(partition,))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=(named,))
    response = await access.ask(request, ElectLeadersResponse, ELECT_VERSION)
    check(response.error_code, f"broker {leader} is not elected", temporary=SOON)
    for result in response.replica_election_results:
        for each in result.partition_result:
            check(each.error_code, f"broker {leader} is not elected", each.error_message, SOON)
    check(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} is not led by broker {leader} yet")
