"""ConsumerGroupHeartbeat, versions 0 and 1: a member joins, stays, reports its partitions, or leaves (KIP-848).

From version 1 on a member generates its own id, and may subscribe with a regular expression.
"""

from dataclasses import replace

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import Token
from odradek.coordinator.groups.consumer.arrival import find_member
from odradek.coordinator.groups.consumer.departure import leave
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from odradek.coordinator.groups.consumer.progress import SubscriptionChange, progress, save_member
from odradek.coordinator.groups.consumer.regexes import update_regex
from odradek.coordinator.groups.consumer.responses import assignment_of
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_NO_CHANGE = (None, None, None, None)

OWN_MEMBER_ID_VERSION = 1
"""From this version on a member has an id in its first heartbeat (KIP-1082)."""


def consumer_group_heartbeat(
    table: ConsumerTable, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, token: Token, decision: Decision
) -> None:
    """Process one heartbeat and reply; a refused one changes nothing."""
    attempt = Decision(decision.now_ms)
    try:
        _check(table, request, client.api_version)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            response = leave(table, request, attempt)
        else:
            response = _stay(table, request, client, attempt)
    except RefusedError as refused:
        decision.reply(token, ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message))
        return
    decision.adopt(attempt)
    decision.reply(token, response)


# Validation of every request, in Kafka's words, which tools look for


def _check(table: ConsumerTable, request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
    needs_id = api_version >= OWN_MEMBER_ID_VERSION or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    _require(bool(request.member_id) or not needs_id, "MemberId can't be empty.")
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(request.member_epoch >= LEAVE_EPOCH, "MemberEpoch is invalid.")
    known = table.config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in known:
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(known)}."
        raise RefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
    owns_nothing = request.topic_partitions is not None and not request.topic_partitions
    _require(owns_nothing, "TopicPartitions must be empty when (re-)joining.")
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    _require(subscribes, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise RefusedError(ErrorCode.INVALID_REQUEST, message)


# Joining and staying


def _stay(
    table: ConsumerTable, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, attempt: Decision
) -> ConsumerGroupHeartbeatResponse:
    draft = Draft(_open_group(table, request, attempt), attempt)
    _check_room(table, draft, request.member_id)
    before = find_member(draft, request, request.member_id or client.new_member_id)
    member = _updated(before, request, client)
    save_member(draft, before, member)
    regex_changed, resolved = update_regex(table, draft, before, member)
    names_changed = before.topics != member.topics
    change = SubscriptionChange(names_changed or regex_changed, names_changed or resolved)
    after = progress(table, draft, member.member_id, request.topic_partitions, change)
    session_ms = table.session_timeout_ms(draft.group_id)
    table.arm(ConsumerTimer.SESSION, draft.group_id, after.member_id, draft.now_ms + session_ms)
    reported = request.member_epoch == JOIN_EPOCH or _is_full(request) or before.assigned != after.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=table.heartbeat_interval_ms(draft.group_id),
        assignment=assignment_of(after) if reported else None,
    )


def _open_group(table: ConsumerTable, request: ConsumerGroupHeartbeatRequest, attempt: Decision) -> ConsumerGroup:
    group = table.groups.get(request.group_id)
    if group is not None:
        return group
    if request.member_epoch != JOIN_EPOCH:
        raise table.conversion.not_found(request.group_id)
    return table.conversion.begin(request.group_id, attempt)


def _check_room(table: ConsumerTable, draft: Draft, member_id: str) -> None:
    limit = table.config.group_consumer_max_size
    members = draft.group.members
    if len(members) >= limit and member_id not in members:
        message = f"The consumer group has reached its maximum capacity of {limit} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo) -> ConsumerMember:
    """Returns the member with the fields of the request; null fields have not changed."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    changes = (names, regex, request.rack_id, request.server_assignor)
    if changes == _NO_CHANGE and timeout_ms == -1 and _is_same_client(member, request, client):
        return member
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


def _is_same_client(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo) -> bool:
    """True if the request has the instance id, client id and host of the member, which uses the consumer protocol."""
    identity = (request.instance_id, client.client_id, client.client_host, None)
    return identity == (member.instance_id, member.client_id, member.client_host, member.classic)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if the request has all fields, as after an error: the member may then have missed its assignment."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
