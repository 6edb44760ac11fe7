"""Members of the classic protocol in a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

LeaveGroup removes members of either protocol, since administrators remove members with it.

For such a member every new epoch is a generation: the response to its heartbeat makes it join again, the response to
its JoinGroup is sent at once, with the epoch as generation and without a leader, and the response to its SyncGroup has
the assignment that the coordinator computed.
"""

from dataclasses import replace

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import Token
from odradek.coordinator.groups.classic.join import MEMBER_ID_REQUIRED_VERSION, Joiner, check_limits, join_group
from odradek.coordinator.groups.classic.leave import leave_response, members_named
from odradek.coordinator.groups.classic.responses import refuse_join, refuse_sync
from odradek.coordinator.groups.classic.sync import lacks_protocol
from odradek.coordinator.groups.consumer.arrival import find_static, static_member, unknown_member
from odradek.coordinator.groups.consumer.departure import fence
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ClassicSide, ConsumerMember
from odradek.coordinator.groups.consumer.member_state import STATIC_LEAVE_EPOCH, MemberState
from odradek.coordinator.groups.consumer.metadata import metadata_changed
from odradek.coordinator.groups.consumer.progress import SubscriptionChange, progress, save_member
from odradek.coordinator.groups.consumer.regexes import update_regex
from odradek.coordinator.groups.consumer.target import target_is_due
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.coordinator.groups.migration.downgrade import downgrade, write_assignment
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.wire.consumer_metadata import PROTOCOL_TYPE, decode_subscription
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.messages.consumer_group_heartbeat import TopicPartitions
from odradek.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# JoinGroup


def join(table: GroupTable, group: ConsumerGroup, joiner: Joiner, decision: Decision) -> None:
    """Add a member of the classic protocol, or process the rejoin of a known one."""
    attempt = Decision(decision.now_ms)
    if group.is_empty():
        # The request creates a classic group, which replaces the consumer group even if the member is then refused.
        # Without records, the request was refused before that.
        join_group(table.classic, joiner, attempt)
        if attempt.records:
            decision.write(group.tombstones())
        decision.adopt(attempt)
        return
    error = check_limits(table.config, joiner)
    if error:
        refuse_join(decision, joiner.waiter, error, joiner.member_id)
        return
    try:
        _join(table, group, joiner, attempt)
    except RefusedError as refused:
        refuse_join(decision, joiner.waiter, refused.code, "")
        return
    decision.adopt(attempt)


def _join(table: GroupTable, group: ConsumerGroup, joiner: Joiner, attempt: Decision) -> None:
    _check_room(table, group, joiner)
    names = [name for name, _ in joiner.protocols]
    if not table.config.consumer.mixes_protocols or not group.supports_classic(joiner.protocol_type, names):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
    if _needs_id(joiner):
        refuse_join(attempt, joiner.waiter, ErrorCode.MEMBER_ID_REQUIRED, joiner.new_member_id)
        return
    subscription = _subscription(joiner)
    draft = Draft(group, attempt)
    before = _find(draft, joiner, subscription)
    member = _updated(before, joiner, subscription)
    downgrades = _replaces_last_new_member(table, group, joiner)
    save_member(draft, before, member)
    if downgrades:
        # Other members may not have reached the target yet, and no member leads, so the classic group rebalances. The
        # SyncGroup that follows the reply gets REBALANCE_IN_PROGRESS.
        downgrade(table, draft.group, (), attempt)
        attempt.reply(joiner.waiter.token, _reply(joiner, member.member_id, draft.group.epoch))
        return
    regex_changed, _ = update_regex(table.consumer, draft, before, member)
    changed = regex_changed or before.topics != member.topics
    owned = _owned(subscription, table.consumer.image())
    after = progress(table.consumer, draft, member.member_id, owned, SubscriptionChange(changed, changed))
    _set_timers(table, draft, joiner, after)
    attempt.reply(joiner.waiter.token, _reply(joiner, after.member_id, after.epoch))


def _check_room(table: GroupTable, group: ConsumerGroup, joiner: Joiner) -> None:
    if len(group.members) >= table.config.consumer.group_consumer_max_size and joiner.member_id not in group.members:
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, None)


def _needs_id(joiner: Joiner) -> bool:
    dynamic = not joiner.member_id and joiner.group_instance_id is None
    return dynamic and joiner.waiter.api_version >= MEMBER_ID_REQUIRED_VERSION


def _subscription(joiner: Joiner) -> ConsumerProtocolSubscription:
    """Returns the subscription of a consumer, which is the same in all of its protocols. Raises RefusedError."""
    try:
        return decode_subscription(joiner.protocols[0][1])
    except ProtocolError as error:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, None) from error


def _find(draft: Draft, joiner: Joiner, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    """Returns the member that joins.

    Raises:
        RefusedError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID for a former member, which must give up its partitions.
    """
    member_id = joiner.member_id or joiner.new_member_id
    if joiner.group_instance_id is None:
        # Others may own the partitions of a removed member by now. A client with a new id owns none.
        if joiner.member_id and member_id not in draft.group.members and subscription.owned_partitions:
            raise unknown_member(draft.group, member_id)
        return draft.group.members.get(member_id, ConsumerMember(member_id))
    if not joiner.member_id:
        return find_static(draft, joiner.group_instance_id, member_id, classic=True)
    return static_member(draft.group, joiner.group_instance_id, member_id)


def _updated(member: ConsumerMember, joiner: Joiner, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=joiner.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=joiner.rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",  # consumers of the classic protocol match regular expressions themselves
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        classic=ClassicSide(joiner.session_timeout_ms, joiner.protocols),
    )


def _replaces_last_new_member(table: GroupTable, group: ConsumerGroup, joiner: Joiner) -> bool:
    """True if the group becomes a classic one with this join.

    That is, a static member changes to the classic protocol, all others use it, and the configs allow the conversion.
    """
    old = group.static_member(joiner.group_instance_id)
    if old is None or old.classic is not None or not table.config.consumer.downgrades:
        return False
    others = (member for member in group.members.values() if member is not old)
    return all(member.classic is not None for member in others) and len(group.members) <= table.config.group_max_size


def _owned(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> list[TopicPartitions]:
    named = ((image.topic(each.topic), each.partitions) for each in subscription.owned_partitions)
    return [
        TopicPartitions(topic_id=topic.topic_id, partitions=indexes) for topic, indexes in named if topic is not None
    ]


def _set_timers(table: GroupTable, draft: Draft, joiner: Joiner, member: ConsumerMember) -> None:
    group_id, member_id = draft.group_id, member.member_id
    table.consumer.disarm(ConsumerTimer.JOIN, group_id, member_id)
    _keep_alive(table, group_id, member, draft.now_ms)
    table.consumer.arm(ConsumerTimer.SYNC, group_id, member_id, draft.now_ms + joiner.rebalance_timeout_ms)


def _keep_alive(table: GroupTable, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    assert member.classic is not None, f"{member.member_id} does not use the classic protocol"
    deadline_ms = now_ms + member.classic.session_timeout_ms
    table.consumer.arm(ConsumerTimer.SESSION, group_id, member.member_id, deadline_ms)


def _reply(joiner: Joiner, member_id: str, generation: int) -> JoinGroupResponse:
    protocol = joiner.protocols[0][0]
    return JoinGroupResponse(
        generation_id=generation, protocol_type=PROTOCOL_TYPE, protocol_name=protocol, member_id=member_id
    )


# SyncGroup and Heartbeat


def sync(
    table: GroupTable,
    group: ConsumerGroup,
    request: SyncGroupRequest,
    client: ClientInfo,
    token: Token,
    decision: Decision,
) -> None:
    """Reply with the member's assignment."""
    if lacks_protocol(request, client.api_version):
        refuse_sync(decision, token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    try:
        member, side = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(side, request)
        _check_no_rebalance(table, group, member, decision.now_ms)
    except RefusedError as refused:
        refuse_sync(decision, token, refused.code)
        return
    table.consumer.disarm(ConsumerTimer.SYNC, group.group_id, member.member_id)
    _keep_alive(table, group.group_id, member, decision.now_ms)
    assignment = write_assignment(member.assigned, side.protocols[0][1], table.consumer.image())
    decision.reply(
        token,
        SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        ),
    )


def heartbeat(table: GroupTable, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Extend the member's session. REBALANCE_IN_PROGRESS makes it join again."""
    try:
        member, _ = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
    except RefusedError as refused:
        return refused.code
    _keep_alive(table, group.group_id, member, now_ms)
    released = member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting(member)
    behind = member.epoch < group.target_epoch or _must_compute_target(table, group, now_ms)
    if behind or member.state is MemberState.UNREVOKED_PARTITIONS or released:
        _await_join(table, group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _must_compute_target(table: GroupTable, group: ConsumerGroup, now_ms: int) -> bool:
    """True if a new target is due, and is computed only when a classic member joins again.

    A static member that is away sends no heartbeat that would compute it.
    """
    away = STATIC_LEAVE_EPOCH
    alone = all(member.classic is not None or member.epoch == away for member in group.members.values())
    return alone and (target_is_due(table.consumer, group, now_ms) or metadata_changed(table.consumer, group))


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    static = instance_id is not None
    member = static_member(group, instance_id, member_id) if static else group.members.get(member_id)
    if member is None or member.classic is None:
        raise unknown_member(group, member_id)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise RefusedError(ErrorCode.ILLEGAL_GENERATION, None)


def _check_protocol(side: ClassicSide, request: SyncGroupRequest) -> None:
    wrong_type = request.protocol_type not in (None, PROTOCOL_TYPE)
    if wrong_type or request.protocol_name not in (None, side.protocols[0][0]):
        raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)


def _check_no_rebalance(table: GroupTable, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """Raise RefusedError (REBALANCE_IN_PROGRESS) if the member is behind the target."""
    # A member that must release partitions has joined for that, and reaches the next epoch afterwards.
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(table, group, member, now_ms)
        raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS, None)


def _await_join(table: GroupTable, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    if not table.consumer.is_armed(ConsumerTimer.JOIN, group.group_id, member.member_id):
        deadline_ms = now_ms + member.rebalance_timeout_ms
        table.consumer.arm(ConsumerTimer.JOIN, group.group_id, member.member_id, deadline_ms)


# LeaveGroup


def leave(
    table: GroupTable,
    group: ConsumerGroup,
    request: LeaveGroupRequest,
    client: ClientInfo,
    token: Token,
    decision: Decision,
) -> None:
    """Remove members of either protocol. All are looked up before any is removed; each gets its own error."""
    leaving = members_named(request, client.api_version)
    found = [_leaving(group, identity) for identity in leaving]
    removed = {member.member_id: member for member in found if isinstance(member, ConsumerMember)}
    if removed:
        fence(table.consumer, group, list(removed.values()), decision)
    errors = [ErrorCode.NONE if isinstance(member, ConsumerMember) else member for member in found]
    decision.reply(token, leave_response(leaving, errors, client.api_version))


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    """Returns the member to remove, or its error. Administrators may identify a static member by instance id alone."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if instance_id is None:
        return group.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    try:
        return static_member(group, instance_id, member_id or group.static_members.get(instance_id, ""))
    except RefusedError as refused:
        return refused.code
