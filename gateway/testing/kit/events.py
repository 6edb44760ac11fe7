"""Events that a test lets happen in a broker: of its groups and of its leaderships."""

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from odradek.gateway.assembly import Services
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.wire.stored.metadata_records import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from odradek.coordinator.contract import Outcome, Token
    from odradek.coordinator.groups.decision import Decision
    from odradek.coordinator.groups.shard import GroupShard
    from odradek.coordinator.metadata.settings import DecisionContext
    from odradek.wire.schema.schema import Message

RETRY_S: Final = 0.01
"""The pause before the next attempt, while a group is rebalancing."""


class Member(NamedTuple):
    """A member of a group of either protocol."""

    member_id: str
    client_id: str
    instance_id: str | None


async def rebalance(services: Services, group_id: str) -> list[str]:
    """Begin a rebalance of a group; returns the ids of the members that must join it.

    In a group of the classic protocol all members join again. One of the consumer protocol (KIP-848) gets a new epoch,
    and its assignment is computed anew. Raises RuntimeError if the group has no members.
    """
    from odradek.coordinator.groups.classic.rebalance import prepare_rebalance
    from odradek.coordinator.groups.consumer.draft import Draft
    from odradek.coordinator.groups.consumer.metadata import raise_epoch

    def decide(shard: "GroupShard", decision: "Decision") -> None:
        consumer = shard.table.consumer.groups.get(group_id)
        if consumer is not None:
            raise_epoch(shard.table.consumer, Draft(consumer, decision), forced=True)
            return
        classic = shard.table.classic.groups.get(group_id)
        if classic is not None and classic.can_rebalance():
            prepare_rebalance(shard.table.classic, classic, decision)

    members = await _members(services, group_id)
    if not members:
        raise RuntimeError(f"group {group_id} has no members")
    await _decide(services, group_id, decide)
    return [each.member_id for each in members]


async def expire_session(
    services: Services, group_id: str, member_id: str | None, client_id: str | None, instance_id: str | None
) -> list[str]:
    """End the sessions of members as if they had timed out; returns these members' ids.

    The members that have all of the given ids; without any, all members. Raises RuntimeError if there are none.
    """
    wanted = Member(member_id or "", client_id or "", instance_id)
    found = [
        each.member_id
        for each in await _members(services, group_id)
        if all(asked in (None, "", has) for asked, has in zip(wanted, each, strict=True))
    ]
    if not found:
        raise RuntimeError(f"group {group_id} has no such member")
    for each in found:
        while each in [member.member_id for member in await _members(services, group_id)]:
            await _expire(services, group_id, each)  # no effect while a reply to it is held, during a rebalance
            await trio.sleep(RETRY_S)
    return found


async def _expire(services: Services, group_id: str, member_id: str) -> None:
    """The same functions as when the timer of the session is due."""
    from odradek.coordinator.groups.classic import expiry as classic_expiry
    from odradek.coordinator.groups.consumer import expiry as consumer_expiry
    from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
    from odradek.coordinator.timers import Timer

    def decide(shard: "GroupShard", decision: "Decision") -> None:
        table = shard.table
        if group_id in table.consumer.groups:
            consumer_expiry.fire(table.consumer, Timer(ConsumerTimer.SESSION, group_id, member_id), decision)
            return
        classic = table.classic.groups.get(group_id)
        member = None if classic is None else classic.members.get(member_id)
        if member is not None:
            classic_expiry.fire(table.classic, member.session, decision)

    await _decide(services, group_id, decide)


async def _members(services: Services, group_id: str) -> list[Member]:
    """The members of a group, of either protocol."""

    def look(shard: "GroupShard", _now_ms: int) -> list[Member]:
        classic = shard.table.classic.groups.get(group_id)
        consumer = shard.table.consumer.groups.get(group_id)
        found = [] if classic is None else list(classic.members.values())
        members = [Member(each.member_id, each.client_id, each.group_instance_id) for each in found]
        others = [] if consumer is None else list(consumer.members.values())
        return members + [Member(each.member_id, each.client_id, each.instance_id) for each in others]

    try:
        return await services.groups.ask(group_id, look)
    except CoordinatorUnavailable:
        return []  # no group has joined yet, so there is no topic of groups


async def _decide(services: Services, group_id: str, decide: "Callable[[GroupShard, Decision], None]") -> None:
    """Let the shard of the group decide something; returns when that is committed."""
    from odradek.coordinator.groups.decision import Decision

    def operation(shard: "GroupShard", token: "Token", now_ms: int) -> "Outcome":
        decision = Decision(now_ms, about=group_id)
        decide(shard, decision)
        decision.reply(token, group_id)
        return decision.outcome()

    await services.groups.call(group_id, operation, str)


async def raise_leader_epoch(services: Services, topic: str, partition: int) -> int:
    """Elect the leader of a partition again, as after an election that it won; returns the new leader epoch.

    Raises RuntimeError if there is no such partition.
    """

    def elect(context: "DecisionContext", _request: None) -> "tuple[list[Message], bool]":
        found = context.image.topic(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return [], False
        leader = found.partitions[partition].leader
        change = PartitionChangeRecord(topic_id=found.topic_id, partition_id=partition, leader=leader)
        return [change], True

    if not await services.controller.decide(elect, None):
        raise RuntimeError(f"there is no partition {topic}-{partition}")
    image = services.metadata.image.topic(topic)
    assert image is not None
    return image.partitions[partition].leader_epoch
