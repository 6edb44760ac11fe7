"""A commit of offsets by a member of a group of either protocol, reported to the oracle."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from odradek.gateway.testing.simulation.loads.oracle import Oracle
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)


async def commit_positions(
    ask: Callable[[OffsetCommitRequest, type[OffsetCommitResponse]], Awaitable[OffsetCommitResponse]],
    oracle: Oracle,
    name: str,
    member: OffsetCommitRequest,
    topic: str,
    positions: Mapping[int, int],
    leader_epochs: Mapping[int, int],
    refusals: frozenset[ErrorCode],
) -> list[int]:
    """Commit `positions` of `topic` with their leader epochs, and return the error codes. `member` names the group and
    the member.

    After one of `refusals` a commit certainly does not count; after another error it may.
    """
    epoch = member.generation_id_or_member_epoch
    fenced = {each: oracle.is_fenced(name, epoch, each) for each in positions}
    for partition, offset in positions.items():
        oracle.will_commit(partition, offset)
    parts = [
        OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epochs.get(partition, -1),
        )
        for partition, offset in positions.items()
    ]
    request = replace(member, topics=(OffsetCommitRequestTopic(name=topic, partitions=tuple(parts)),))
    answers = (await ask(request, OffsetCommitResponse)).topics[0].partitions
    for part in answers:
        index, offset = part.partition_index, positions[part.partition_index]
        if part.error_code in refusals:
            oracle.was_refused(index, offset)
        elif not part.error_code:
            oracle.was_committed(index, offset, fenced=fenced[index])
    return [part.error_code for part in answers]
