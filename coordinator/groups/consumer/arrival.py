"""Finds the member that sent a request: a known one, a new one, or a static one that replaces an earlier one."""

from dataclasses import replace

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.member_state import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from odradek.coordinator.groups.consumer.target import target_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def find_member(draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    """Returns the member that sent a heartbeat. Raises RefusedError when it is unknown or fenced."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = draft.group.members.get(member_id)
        if member is None:
            if not joins:
                raise unknown_member(draft.group, member_id)
            return ConsumerMember(member_id)
        _check_epoch(member, request)
        return member
    if joins:
        return find_static(draft, request.instance_id, member_id, classic=False)
    member = static_member(draft.group, request.instance_id, member_id)
    _check_epoch(member, request)
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> RefusedError:
    """Returns the error for a member id that is not in the group."""
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Returns the static member with this instance id and member id.

    Raises:
        RefusedError: UNKNOWN_MEMBER_ID for an unknown instance id, FENCED_INSTANCE_ID if it has another member id.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, message)
    return member


def find_static(draft: Draft, instance_id: str, member_id: str, *, classic: bool) -> ConsumerMember:
    """Returns the member for a static join: it replaces the earlier member of its instance id, with its partitions.

    A member of the consumer protocol that repeats its join stays as it is, as a dynamic one.

    Raises:
        RefusedError: UNRELEASED_INSTANCE_ID, while the earlier member has not left and both use the consumer protocol.
    """
    group, old = draft.group, draft.group.static_member(instance_id)
    if old is None:
        return group.members.get(member_id, ConsumerMember(member_id))
    if not classic and old.classic is None and old.epoch != STATIC_LEAVE_EPOCH:
        if old.member_id == member_id:
            return old  # it joins again, as the response may have been lost
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {old.member_id} member."
        )
        raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    target = target_of(group, old.member_id)
    kept = old.held_since(JOIN_EPOCH)
    member = replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH, assigned=kept)
    draft.write(
        *records.member_tombstones(group.group_id, old.member_id),
        records.member_record(group.group_id, member),
        records.target_record(group.group_id, member_id, target),
        records.current_record(group.group_id, member),
    )
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise RefusedError (FENCED_MEMBER_EPOCH) for an epoch that is not the member's.

    Its previous epoch is accepted if the response with the new one may have been lost.
    """
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    lost_answer = epoch == member.previous_epoch and member.owns_no_more_than_assigned(request.topic_partitions)
    if epoch > member.epoch or not lost_answer:
        how = "greater" if epoch > member.epoch else "smaller"
        message = (
            f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )
        raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)
