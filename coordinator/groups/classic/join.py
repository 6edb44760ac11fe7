"""JoinGroup, versions 0 to 9: a member joins, or joins again."""

from dataclasses import dataclass

from odradek.coordinator.contract import Token
from odradek.coordinator.groups.classic.generation import assignments_of, group_record, new_group_record
from odradek.coordinator.groups.classic.group import ClassicGroup, JoinWaiter, Member, Protocols
from odradek.coordinator.groups.classic.rebalance import (
    add_pending,
    complete_join_if_ready,
    hold_join,
    keep_alive,
    prepare_rebalance,
    rebalance_or_complete,
    remove_member,
    remove_pending,
)
from odradek.coordinator.groups.classic.responses import join_reply, refuse_join
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.classic.static_members import replace_static_member
from odradek.coordinator.groups.classic.table import ClassicTable
from odradek.coordinator.groups.classic.timer_kinds import ClassicTimer
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.coordinator.timers import Timer
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_VERSION = 4
"""From this version on a dynamic member first gets an id and joins with it (KIP-394)."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member's JoinGroup may wait, since it cannot heartbeat yet. Kafka has no setting for it either."""

MEMBER_ID_NAME_MAX = 1000
"""The maximum number of characters of a client or instance id in a member id, which must fit into a Kafka string."""

SKIP_ASSIGNMENT_VERSION = 9
"""From this version on a reply can make the leader skip the assignment (KIP-814)."""


@dataclass(frozen=True, slots=True)
class Joiner:
    """One JoinGroup, independent of its version. `new_member_id` is the id for a member that has none."""

    waiter: JoinWaiter
    group_id: str
    member_id: str
    group_instance_id: str | None
    new_member_id: str
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @staticmethod
    def of(request: JoinGroupRequest, client: ClientInfo, token: Token) -> "Joiner":
        """Convert a request; version 0 has no rebalance time-out and uses the session time-out (KIP-62)."""
        by_session = client.api_version == 0
        name = client.client_id if request.group_instance_id is None else request.group_instance_id
        return Joiner(
            waiter=JoinWaiter(token, client.api_version),
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            new_member_id=f"{name[:MEMBER_ID_NAME_MAX]}-{client.new_member_id}",
            client_id=client.client_id,
            client_host=client.client_host,
            protocol_type=request.protocol_type,
            protocols=tuple({p.name: bytes(p.metadata) for p in request.protocols}.items()),
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.session_timeout_ms if by_session else request.rebalance_timeout_ms,
        )


def join_group(table: ClassicTable, joiner: Joiner, decision: Decision) -> None:
    """Add a member or refuse it; the reply may be held until the join phase ends."""
    error = check_limits(table.config, joiner)
    if error:
        refuse_join(decision, joiner.waiter, error, joiner.member_id)
        return
    group = table.groups.get(joiner.group_id)
    if group is not None:
        _join(table, group, joiner, decision)
    elif joiner.member_id:
        refuse_join(decision, joiner.waiter, ErrorCode.UNKNOWN_MEMBER_ID, joiner.member_id)
    else:
        # As in Kafka, the group exists from here on, even when its first member is refused.
        group = table.groups[joiner.group_id] = ClassicGroup(joiner.group_id, decision.now_ms)
        decision.record(new_group_record(group))
        _join(table, group, joiner, decision)


def check_limits(config: GroupConfig, joiner: Joiner) -> ErrorCode:
    """Returns NONE if the request has a group id, and its session time-out is within bounds."""
    if not joiner.group_id:
        return ErrorCode.INVALID_GROUP_ID
    allowed = config.group_min_session_timeout_ms <= joiner.session_timeout_ms <= config.group_max_session_timeout_ms
    return ErrorCode.NONE if allowed else ErrorCode.INVALID_SESSION_TIMEOUT


def _join(table: ClassicTable, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
    if not _has_room(group, joiner.member_id, table.config.group_max_size):
        remove_pending(table, group, joiner.member_id)
        remove_member(table, group, joiner.member_id, decision)
        refuse_join(decision, joiner.waiter, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        complete_join_if_ready(table, group, decision)
    elif not group.supports(joiner.protocol_type, joiner.protocols):
        refuse_join(decision, joiner.waiter, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, joiner.member_id)
    elif joiner.member_id:
        _join_known(table, group, joiner, decision)
    elif joiner.group_instance_id is not None:
        _join_static(table, group, joiner, joiner.group_instance_id, decision)
    elif joiner.waiter.api_version >= MEMBER_ID_REQUIRED_VERSION:
        add_pending(table, group, joiner.new_member_id, joiner.session_timeout_ms, decision)
        refuse_join(decision, joiner.waiter, ErrorCode.MEMBER_ID_REQUIRED, joiner.new_member_id)
    else:
        _add_member(table, group, joiner, joiner.new_member_id, decision)


def _has_room(group: ClassicGroup, member_id: str, limit: int) -> bool:
    """True if the group may have this member. During the join phase only members that have joined count.

    So a group above a lowered limit loses the members that rejoin last.
    """
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.joining or len(group.joining) < limit
    return member_id in group.members or len(group.members) < limit


# A member without an id


def _join_static(
    table: ClassicTable, group: ClassicGroup, joiner: Joiner, instance_id: str, decision: Decision
) -> None:
    old_member_id = group.static_members.get(instance_id)
    if old_member_id is None:
        _add_member(table, group, joiner, joiner.new_member_id, decision)
        return
    kept = group.state is GroupState.STABLE
    member, old_leader = replace_static_member(table, group, old_member_id, joiner.new_member_id, decision)
    _update(group, member, joiner)
    if kept and group.select_protocol() == group.protocol:
        _keep_generation(group, member, joiner, old_leader, decision)
        return
    hold_join(group, member.member_id, joiner.waiter, decision)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may already assign partitions to the old id, so its assignment could not be used.
        prepare_rebalance(table, group, decision)
    else:
        rebalance_or_complete(table, group, decision)


def _keep_generation(
    group: ClassicGroup, member: Member, joiner: Joiner, old_leader: str | None, decision: Decision
) -> None:
    """Keep the generation for a static member that rejoins, as the selected protocol stays; write its new member id.

    A rejoining leader must not compute a new assignment. From version 9 on the reply has `skip_assignment` (KIP-814);
    before, the reply contains the leader's old member id, so that the member acts as a follower.
    """
    decision.record(group_record(group, assignments_of(group), group.state_since_ms))
    if joiner.waiter.api_version >= SKIP_ASSIGNMENT_VERSION:
        leads = group.leader == member.member_id
        reply = join_reply(group, member.member_id, with_members=leads, skip_assignment=leads)
    else:
        reply = join_reply(group, member.member_id, leader=old_leader)
    decision.reply(joiner.waiter.token, reply)


def _add_member(table: ClassicTable, group: ClassicGroup, joiner: Joiner, member_id: str, decision: Decision) -> None:
    if not group.members:
        group.protocol_type = joiner.protocol_type
    member = Member(
        member_id=member_id,
        group_instance_id=joiner.group_instance_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        rebalance_timeout_ms=joiner.rebalance_timeout_ms,
        session_timeout_ms=joiner.session_timeout_ms,
        protocols=joiner.protocols,
        session=Timer(ClassicTimer.SESSION, group.group_id, member_id),
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_rebalance:
        group.new_member_added = True
    group.add(member)
    hold_join(group, member_id, joiner.waiter, decision)
    # It cannot heartbeat while it waits. Without this limit, requests of clients that time out would accumulate.
    table.timers.set(member.session, decision.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(table, group, decision)


# A member with an id


def _join_known(table: ClassicTable, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
    if joiner.member_id in group.pending:
        if joiner.group_instance_id is not None:
            # Static members never get a pending id, so this is an error of the client; Kafka returns the same.
            refuse_join(decision, joiner.waiter, ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return
        remove_pending(table, group, joiner.member_id)
        _add_member(table, group, joiner, joiner.member_id, decision)
        return
    error = group.check_member(joiner.member_id, joiner.group_instance_id)
    if error:
        refuse_join(decision, joiner.waiter, error, joiner.member_id)
        return
    member = group.members[joiner.member_id]
    if _must_rebalance(group, member, joiner):
        _update(group, member, joiner)
        hold_join(group, member.member_id, joiner.waiter, decision)
        rebalance_or_complete(table, group, decision)
    else:
        keep_alive(table, member, decision.now_ms)
        leads = group.leader == member.member_id
        decision.reply(joiner.waiter.token, join_reply(group, member.member_id, with_members=leads))


def _must_rebalance(group: ClassicGroup, member: Member, joiner: Joiner) -> bool:
    """True if a rejoin starts or joins a rebalance; otherwise it repeats a request whose reply was lost.

    The leader of a stable group rejoins to trigger a new assignment after the partitions of topics have changed.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    leads = group.state is GroupState.STABLE and group.leader == member.member_id
    return leads or member.protocols != joiner.protocols


def _update(group: ClassicGroup, member: Member, joiner: Joiner) -> None:
    group.set_protocols(member, joiner.protocols)
    member.rebalance_timeout_ms = joiner.rebalance_timeout_ms
    member.session_timeout_ms = joiner.session_timeout_ms
