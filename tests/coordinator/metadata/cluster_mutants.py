"""Controllers that each lack one safety step, and the invariant that detects it."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from plant import inside, plant

from odradek.coordinator.metadata.controller import (
    alter_partition,
    broker_changes,
    broker_registration,
    partition_change,
    reassignments,
)
from odradek.coordinator.metadata.controller.partition_change import Election
from odradek.coordinator.metadata.image import replay
from odradek.coordinator.metadata.image.image import NO_LEADER


@dataclass
class Mutant:
    """The function to replace, its replacement, and the invariant that must fail within `seeds` seeds."""

    module: Any
    function: str
    instead: Any
    invariant: str
    seeds: int = 40
    first_seed: int = 0

    @contextmanager
    def planted(self):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch, self.module, self.function, self.instead)
            yield


def every_start_is_clean(context, broker_id, *, is_clean):
    del is_clean
    return broker_changes.replace_incarnation(context, broker_id, is_clean=True)


def lost_place_in_the_isr(before, draft, lost, min_insync):
    del before, draft, lost, min_insync
    return ()


def elr_for_ever(before, draft, lost, min_insync):
    del min_insync
    had_all = {*before.elr, *before.isr}.difference(draft.isr, lost)
    return tuple(each for each in draft.replicas if each in had_all)


def elr_beside_itself(before, draft, lost, min_insync):
    if draft.has_enough(min_insync):
        return ()
    had_all = {*before.elr, *before.isr}.difference(lost)
    return tuple(each for each in draft.replicas if each in had_all)


def fenced_is_eligible(image, member):
    broker = image.brokers.get(member.broker_id)
    return broker is not None and member.broker_epoch in (-1, broker.epoch)


def leaders_stay(before, draft, election, min_insync, may_lead):
    if before.leader < 0:
        ELECT(before, draft, election, min_insync, may_lead)
    else:
        draft.leader = before.leader


def unclean_for_all(before, draft, election, min_insync, may_lead):
    del election
    ELECT(before, draft, Election.UNCLEAN, min_insync, may_lead)


def leader_epoch_stays(before, record):
    return replace(CHANGED(before, record), leader_epoch=before.leader_epoch)


def partition_epoch_stays(before, record):
    return replace(CHANGED(before, record), partition_epoch=before.partition_epoch)


def reassignment_ends_early(draft):
    if not draft.adding and not draft.removing:
        return
    staying = tuple(each for each in draft.replicas if each not in draft.removing)
    if any(each in draft.isr for each in staying):
        draft.replicas, draft.adding, draft.removing = staying, (), ()
        draft.isr = tuple(each for each in draft.isr if each in staying)


def elected_out_of_nothing(before, draft, election, min_insync, may_lead):
    draft.elr = draft.elr or (draft.replicas if not draft.isr else ())
    ELECT(before, draft, election, min_insync, may_lead)


def last_known_though_removed(before, draft):
    if draft.leader != NO_LEADER:
        return ()
    return before.last_known_elr if before.leader == NO_LEADER else (before.leader,)


def reverted_to_the_eligible(before, settings):
    del settings
    return reassignments.Wanted(
        isr=[each for each in before.isr if each not in before.adding_replicas],
        replicas=reassignments.original_replicas(before),
        adding=(),
        removing=(),
    )


ELECT = inside(partition_change, "_elect")
CHANGED = replay.changed_partition

MUTANTS = {
    "every start is clean": Mutant(
        broker_registration, "replace_incarnation", every_start_is_clean, "eligible-have-all"
    ),
    "who leaves a small ISR is forgotten": Mutant(
        partition_change, "_eligible", lost_place_in_the_isr, "enough-have-all"
    ),
    "an ELR never ends": Mutant(partition_change, "_eligible", elr_for_ever, "eligible-have-all"),
    "an ELR keeps who is in sync": Mutant(partition_change, "_eligible", elr_beside_itself, "elr-beside-isr"),
    "fenced brokers join the ISR": Mutant(alter_partition, "_is_eligible", fenced_is_eligible, "isr-is-active"),
    "a leader stays though it is fenced": Mutant(partition_change, "_elect", leaders_stay, "leader-in-isr"),
    "unclean elections everywhere": Mutant(partition_change, "_elect", unclean_for_all, "clean-leader"),
    "any replica is elected when none is eligible": Mutant(
        partition_change, "_elect", elected_out_of_nothing, "clean-leader"
    ),
    "the leader's epoch stays": Mutant(replay, "changed_partition", leader_epoch_stays, "epochs"),
    "the partition's epoch stays": Mutant(replay, "changed_partition", partition_epoch_stays, "epochs"),
    "a reassignment ends before all are in sync": Mutant(
        partition_change, "_end_reassignment", reassignment_ends_early, "enough-have-all", first_seed=140
    ),
    "a removed replica stays the last known leader": Mutant(
        partition_change, "_last_known", last_known_though_removed, "last-known-of-replicas"
    ),
    "a cancelled reassignment removes the only replica in sync": Mutant(
        reassignments, "_reverted", reverted_to_the_eligible, "in-sync-replica-remains", first_seed=660
    ),
}
