"""One step of a member's reconciliation with its target assignment; see `member_state` for the theory."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember, Held, NamedPartitions, Partitions, still_owns
from odradek.coordinator.groups.consumer.member_state import MemberState

Owned = Iterable[NamedPartitions] | None
"""The partitions that a heartbeat lists as owned; None when it does not list them."""


@dataclass(frozen=True, slots=True)
class Step:
    """The input of a step: the topics subscribed to, the partitions in the heartbeat, and the target."""

    group: ConsumerGroup
    topic_ids: frozenset[UUID]
    owned: Owned
    target: Partitions
    target_epoch: int


def reconcile(member: ConsumerMember, step: Step, *, subscription_changed: bool) -> ConsumerMember:
    """Returns the member after this step: the same object when nothing changes."""
    waits = member.state is MemberState.UNREVOKED_PARTITIONS and still_owns(step.owned, member.revoking)
    settled = member.is_at(step.target_epoch)
    if not waits and not settled:
        return _next(member, step)
    return _without_unsubscribed(member, step) if subscription_changed else member


def _next(member: ConsumerMember, step: Step) -> ConsumerMember:
    target = {topic_id: wanted for topic_id, wanted in step.target.items() if topic_id in step.topic_ids}
    kept = _select(member.assigned, lambda topic_id, index: index in target.get(topic_id, ()))
    surplus = _select(member.assigned, lambda topic_id, index: index not in target.get(topic_id, ()))
    if surplus and still_owns(step.owned, surplus):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(member.at_epoch(member.epoch), state=state, assigned=kept, revoking=surplus)
    missing = [
        (topic_id, index) for topic_id in target for index in sorted(target[topic_id] - kept.get(topic_id, {}).keys())
    ]
    free = [each for each in missing if step.group.owners.get(each, member.member_id) == member.member_id]
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    assigned = _with(kept, free, step.target_epoch)
    return replace(member.at_epoch(step.target_epoch), state=state, assigned=assigned, revoking={})


def _without_unsubscribed(member: ConsumerMember, step: Step) -> ConsumerMember:
    """Revoke partitions of topics that are no longer subscribed to, without waiting for a new target."""
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in step.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    revoking = {topic_id: dict(held) for topic_id, held in member.revoking.items()}
    for topic_id, held in member.assigned.items():
        if topic_id not in kept:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
    same_epoch = member.at_epoch(member.epoch)
    if still_owns(step.owned, revoking):
        return replace(same_epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    return replace(same_epoch, assigned=kept)


def _select(held: Held, wanted: Callable[[UUID, int], bool]) -> dict[UUID, Mapping[int, int]]:
    found = {
        topic_id: {index: epoch for index, epoch in partitions.items() if wanted(topic_id, index)}
        for topic_id, partitions in held.items()
    }
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def _with(held: Held, partitions: list[tuple[UUID, int]], epoch: int) -> Held:
    grown = {topic_id: dict(partitions) for topic_id, partitions in held.items()}
    for topic_id, index in partitions:
        grown.setdefault(topic_id, {})[index] = epoch
    return grown
