"""Bugs to plant in replication: each removes one safety step, and breaks the invariant named with it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from plant import inside, plant
from replication_invariants import Invariant

from odradek.gateway.replication import following
from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.follower import Follower
from odradek.partitions.in_sync import InSyncReplicas
from odradek.partitions.leader import FollowerFetch, Leader
from odradek.partitions.reads import Reads
from odradek.partitions.remote import RemoteReplica
from odradek.partitions.results import FetchPlan


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    broken: Invariant
    faults: tuple[str, ...] | None = None
    from_seed: int = 0


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """Epochs are not compared: a follower appends behind records that its leader never had."""
    plant(patch, Reads, "_divergence", lambda *_: None)


def stale_isr_counts(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is computed with the ISR of the beginning of the epoch."""
    init, committed_end = InSyncReplicas.__init__, InSyncReplicas.committed_end
    first: dict[InSyncReplicas, frozenset[int]] = {}

    def remember(self: InSyncReplicas, *rest: Any) -> None:
        init(self, *rest)
        first[self] = self.isr

    def stale(self: InSyncReplicas, *rest: Any) -> int:
        maximal, self.maximal = self.maximal, first[self]
        end = committed_end(self, *rest)
        self.maximal = maximal
        return end

    patch.setattr(InSyncReplicas, "__init__", remember)
    patch.setattr(InSyncReplicas, "committed_end", stale)
    none_is_joining(patch)


def none_is_joining(patch: pytest.MonkeyPatch) -> None:
    """The high watermark does not wait for a follower that is about to join: no bug by itself."""
    plant(patch, InSyncReplicas, "_is_joining", lambda *_: False)


def proposed_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """While a proposal is in flight, the high watermark is computed with the committed ISR."""
    propose = inside(InSyncReplicas, "_propose")

    def careless(self: InSyncReplicas, *rest: Any) -> Any:
        maximal = self.maximal
        proposal = propose(self, *rest)
        self.maximal = maximal
        return proposal

    plant(patch, InSyncReplicas, "_propose", careless)
    none_is_joining(patch)


def joins_at_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower joins at the leader's high watermark, even below the start of the epoch."""
    init = InSyncReplicas.__init__

    def from_zero(self: InSyncReplicas, *rest: Any) -> None:
        init(self, *rest)
        self.epoch_start_offset = 0

    patch.setattr(InSyncReplicas, "__init__", from_zero)


def diverging_fetch_recorded(patch: pytest.MonkeyPatch) -> None:
    """A diverged follower counts as having everything below its fetch offset (KAFKA-13141)."""
    record = Leader.record_fetch

    def believing(self: Leader, follower: FollowerFetch, plan: FetchPlan, now_ms: int) -> Any:
        return record(self, follower, plan._replace(diverging=None), now_ms)

    patch.setattr(Leader, "record_fetch", believing)


def earlier_registration_joins(patch: pytest.MonkeyPatch) -> None:
    """A late fetch of a broker that has lost its disk since adds it to the ISR (KIP-903)."""
    patch.setattr(InSyncReplicas, "is_stale", lambda *_: False)
    plant(patch, InSyncReplicas, "_is_eligible", lambda self, broker_id, _remote: self._brokers(broker_id).is_active)
    plant(patch, InSyncReplicas, "_epoch_of", lambda self, broker_id: self._brokers(broker_id).epoch)


def producers_not_rebuilt(patch: pytest.MonkeyPatch) -> None:
    """A truncation does not rebuild the producers of the removed batches."""
    patch.setattr(following, "cut", lambda part, offset: part.truncate(offset))


def fetched_before_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower continues to fetch before the fetched records are durable."""
    patch.setattr(Follower, "may_fetch", property(lambda _self: True))


def committed_below_min_isr(patch: pytest.MonkeyPatch) -> None:
    """The high watermark advances with any number of in-sync replicas: the last replica standing (KIP-966)."""
    patch.setattr(InSyncReplicas, "is_short", lambda *_: False)


def unfetched_counts_as_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A follower's log end offset of an earlier epoch counts in the next one."""
    init = RemoteReplica.__init__

    def remembered(self: RemoteReplica, *rest: Any, **more: Any) -> None:
        init(self, *rest, **more)
        self.log_end_offset = 2**62

    patch.setattr(RemoteReplica, "__init__", remembered)


def proposal_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A leader whose log was opened again begins with the ISR of the metadata, though a proposal may be in force."""
    role_over = Assignment.role_over

    def anew(self: Assignment, *args: Any) -> Any:
        return role_over(self, *args[:3])

    patch.setattr(Assignment, "role_over", anew)


MUTANTS = {
    mutant.__name__: Mutant(mutant, broken, *faults)
    for mutant, broken, *faults in (
        (no_truncation, Invariant.COMMITTED_SAME),
        (stale_isr_counts, Invariant.IN_SYNC_HOLDS),
        (proposed_do_not_count, Invariant.IN_SYNC_HOLDS),
        (joins_at_high_watermark, Invariant.IN_SYNC_HOLDS),
        (diverging_fetch_recorded, Invariant.IN_SYNC_HOLDS),
        (producers_not_rebuilt, Invariant.PRODUCERS_KNOWN),
        (fetched_before_durable, Invariant.IN_SYNC_HOLDS),
        (committed_below_min_isr, Invariant.IN_SYNC_HOLDS),
        (unfetched_counts_as_caught_up, Invariant.IN_SYNC_HOLDS),
        (proposal_forgotten, Invariant.IN_SYNC_HOLDS, ("cut_off", "bad_disk", "late", "late"), 80),
    )
}
