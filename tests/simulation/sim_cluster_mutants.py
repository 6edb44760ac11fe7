"""Bugs to plant in whole nodes of a cluster: each removes one safety measure, and violates one invariant."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from plant import inside, plant
from sim_log_mutants import partitions_given_while_held

from odradek.coordinator.groups.consumer import progress, reconcile
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.metadata.controller import partition_change
from odradek.coordinator.quorum import changes
from odradek.gateway.env.completion import DONE
from odradek.gateway.quorum.metadata_log import QuorumLeader
from odradek.gateway.replication.following import FollowingLog
from odradek.gateway.replication.replica import Replica
from odradek.gateway.testing.simulation.loads.oracle import Invariant
from odradek.partitions.follower import Follower
from odradek.partitions.in_sync import InSyncReplicas
from odradek.partitions.reads import Reads
from odradek.partitions.remote import RemoteReplica
from odradek.partitions.results import Rejected
from odradek.storage_backends.memory.medium import MediumLog
from odradek.wire.errors import ErrorCode


class Mutant(NamedTuple):
    """A bug, the invariant that it violates, and the kinds of faults with which it is found.

    `first` is the first seed to run. It is not 0 if earlier seeds violate another invariant, which takes a minute each:
    clients that wait for lost records time out after 25 simulated minutes.
    """

    plant: Callable[[pytest.MonkeyPatch], None]
    broken: Invariant
    faults: tuple[str, ...]
    first: int = 0


def fetched_on_before_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower sends the next fetch before the fetched records are durable."""
    take = FollowingLog.take_fetched

    def careless(self: Any, *rest: Any) -> Any:
        taken = take(self, *rest)
        return taken if taken is None or isinstance(taken, Rejected) else DONE

    patch.setattr(FollowingLog, "take_fetched", careless)
    patch.setattr(Follower, "may_fetch", property(lambda _self: True))


def committed_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark depends only on the leader's log, and not on the in-sync replicas."""
    patch.setattr(InSyncReplicas, "committed_end", lambda _self, own_end, _config: own_end)


def unfetched_counts_as_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A new leader counts followers as caught up before they have fetched in its epoch."""
    init = RemoteReplica.__init__

    def remembered(self: RemoteReplica, *rest: Any, **more: Any) -> None:
        init(self, *rest, **more)
        self.log_end_offset = 2**62

    patch.setattr(RemoteReplica, "__init__", remembered)


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """Epochs are not compared: a follower keeps records that its leader never had, and appends after them."""
    plant(patch, Reads, "_divergence", lambda *_: None)


def answered_when_durable(patch: pytest.MonkeyPatch) -> None:
    """Produce with acks=all is answered when the batch is durable on the leader."""
    patch.setattr(Replica, "committed", Replica.durable)


def disk_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A sync of the disk does nothing."""
    apply = MediumLog.apply
    patch.setattr(MediumLog, "apply", lambda self, runs, *, sync: apply(self, runs, sync=sync and False))


def followers_commit_what_they_have(patch: pytest.MonkeyPatch) -> None:
    """A follower's high watermark is its log end offset, not what its leader reports."""
    commits = Follower.leader_commits
    patch.setattr(Follower, "leader_commits", lambda self, _offset: commits(self, self.state.log_end_offset))


def metadata_committed_by_one(patch: pytest.MonkeyPatch) -> None:
    """Records count as committed when they are durable on the active controller alone."""
    plant(patch, QuorumLeader, "_advance", lambda self: self.state.raise_high_watermark(self.state.durable_end_offset))


def voters_changed_before_the_last_change_is_committed(patch: pytest.MonkeyPatch) -> None:
    """The leader of the quorum does not wait until the last voter set is committed."""

    not_settled = inside(changes, "_not_settled")

    def at_once(quorum: Any) -> Any:
        refused = not_settled(quorum)
        return refused if refused is not None else quorum.voters_in_log.voters

    plant(patch, changes, "_changeable", at_once)


def reassignments_end_early(patch: pytest.MonkeyPatch) -> None:
    """A reassignment ends before the added replicas are in sync."""

    def early(draft: Any) -> None:
        if draft.adding or draft.removing:
            staying = tuple(each for each in draft.replicas if each not in draft.removing)
            if not set(staying).isdisjoint(draft.isr):
                draft.replicas, draft.adding, draft.removing = staying, (), ()
                draft.isr = tuple(each for each in draft.isr if each in staying)

    plant(patch, partition_change, "_end_reassignment", early)


def removed_replicas_stay(patch: pytest.MonkeyPatch) -> None:
    """A reassignment adds replicas, but does not remove any when it ends."""

    def keeping(draft: Any) -> None:
        if (draft.adding or draft.removing) and set(draft.replicas) <= set(draft.isr):
            draft.adding, draft.removing = (), ()

    plant(patch, partition_change, "_end_reassignment", keeping)


def reassignments_never_end(patch: pytest.MonkeyPatch) -> None:
    """A reassignment does not end when the added replicas are in sync."""
    plant(patch, partition_change, "_end_reassignment", lambda _draft: None)


def leaders_that_are_not_in_sync(patch: pytest.MonkeyPatch) -> None:
    """An election by request elects the first replica even if it is not in sync."""
    elect = inside(partition_change, "_elect")

    def first(before: Any, draft: Any, election: Any, *rest: Any) -> None:
        elect(before, draft, election, *rest)
        if election is partition_change.Election.PREFERRED:
            draft.leader = draft.replicas[0]

    plant(patch, partition_change, "_elect", first)


def offsets_committed_by_any_member(patch: pytest.MonkeyPatch) -> None:
    """Offset commits of removed members, or in a past epoch, are accepted."""
    plant(patch, ConsumerGroup, "check_offset_commit", lambda *_: ErrorCode.NONE)


def partitions_are_not_given(patch: pytest.MonkeyPatch) -> None:
    """Members wait for partitions that no member holds."""
    held = SimpleNamespace(owners=SimpleNamespace(get=lambda *_: "another member"))
    plant(patch, progress, "Step", lambda _group, *rest: reconcile.Step(held, *rest))


MUTANTS = {
    mutant.__name__: Mutant(mutant, *rest)
    for mutant, *rest in (
        (fetched_on_before_durable, Invariant.IN_SYNC_HOLDS, ("slow-disk",)),
        (committed_by_the_leader_alone, Invariant.IN_SYNC_HOLDS, ("delay",)),
        (unfetched_counts_as_caught_up, Invariant.IN_SYNC_HOLDS, ("kill",)),
        (no_truncation, Invariant.COMMITTED_SAME, ("kill", "partition"), 19),
        (answered_when_durable, Invariant.ACKNOWLEDGED_ONCE, ("power", "partition"), 3),
        (disk_not_synced, Invariant.IN_SYNC_HOLDS, ("power",)),
        (followers_commit_what_they_have, Invariant.IN_SYNC_HOLDS, ("delay",)),
        (metadata_committed_by_one, Invariant.METADATA_PREFIX, ("partition",)),
        (voters_changed_before_the_last_change_is_committed, Invariant.ONE_VOTER_AT_A_TIME, ("voters", "delay")),
        (partitions_given_while_held, Invariant.ONE_HOLDER, ("loss",), 6),
        (offsets_committed_by_any_member, Invariant.FENCED_COMMITS_REFUSED, ("kill",), 6),
        (partitions_are_not_given, Invariant.ALL_OWNED, ("loss",), 6),
        (reassignments_end_early, Invariant.REASSIGNED_IN_SYNC, ("reassign",)),
        (removed_replicas_stay, Invariant.REASSIGNED_AS_REQUESTED, ("reassign",)),
        (reassignments_never_end, Invariant.REASSIGNMENTS_END, ("reassign",)),
        (leaders_that_are_not_in_sync, Invariant.ASSIGNMENT_CONSISTENT, ("elect", "kill")),
    )
}
