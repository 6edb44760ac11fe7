"""One change of a partition: computes its ISR, ELR and leader, and the end of a reassignment, from the wanted state.

All changes of partitions are made by `change_partition`, in these steps:

1. **Reassignment** (KIP-455). Once all replicas that stay are in sync, the others are removed, and it is complete.
2. **ELR** (KIP-966). A replica that leaves the ISR while fewer than `min.insync.replicas` remain has all committed
   records, since the high watermark cannot advance until there are enough again. It becomes an eligible leader replica.
   It is removed from the ELR once the ISR is large enough, or when its broker may have lost records (an unclean
   shutdown).
3. **Election.** The leader stays if it may lead. Otherwise the first replica of the ISR that may lead is elected, or,
   if the ISR is empty, of the ELR. A leader elected from the ELR is the only member of the new ISR. Both sets are empty
   if all their members had an unclean shutdown. Then the last known leader is elected once it may lead: it had all
   committed records, and still has them unless its disk is lost. Any other replica is elected only if unclean elections
   are allowed, and may lose records. A leader of these last two kinds is RECOVERING.
4. **Epochs.** The partition epoch grows with every change. The leader epoch grows when the leader changes, and when a
   replica is removed from the assignment, so that requests of the removed replica are fenced.

As in Kafka, except for four stricter rules: an ELR has only replicas of the partition, an election from the ELR clears
the ELR if `min.insync.replicas` is 1, the last known leader is not elected while it is fenced, and it is forgotten when
it is removed from the replicas.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from odradek.coordinator.metadata.image.image import NO_LEADER, RECOVERING, PartitionImage
from odradek.wire.stored.metadata_records import PartitionChangeRecord
from odradek.wire.values import immutable, mutable

_LEADER_UNCHANGED: Final = -2
_STATE_UNCHANGED: Final = -1

MayLead = Callable[[int], bool]
"""Returns True if a broker may become leader now."""


class Election(Enum):
    """Which replicas may become leader, and whether the preferred replica replaces a leader that could stay."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@immutable
class Wanted:
    """The requested changes of a partition; None keeps a field. Brokers in `lost` may have lost committed records."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    recovery: int | None = None
    election: Election = Election.ONLINE
    lost: Sequence[int] = ()


@mutable
class _Draft:
    """The partition after the change."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovery: int
    elr: tuple[int, ...] = ()
    leader: int = NO_LEADER

    def has_enough(self, min_insync: int) -> bool:
        """True if there are as many in-sync replicas as the high watermark needs to advance."""
        return len(self.isr) >= effective_min_insync(min_insync, self.replicas)


def effective_min_insync(min_insync: int, replicas: Sequence[int]) -> int:
    """Returns the number of in-sync replicas that the high watermark needs: the setting, limited to all replicas.

    Leaders compute the same, including the replicas that a reassignment is adding.
    """
    return min(min_insync, len(replicas))


def change_partition(
    before: PartitionImage, topic_id: UUID, index: int, wanted: Wanted, *, min_insync: int, may_lead: MayLead
) -> PartitionChangeRecord | None:
    """Returns the record of the requested changes of `before` and their consequences; None when nothing changes."""
    draft = _Draft(
        replicas=_given(wanted.replicas, before.replicas),
        isr=tuple(each for each in _given(wanted.isr, before.isr) if each not in wanted.lost),
        adding=_given(wanted.adding, before.adding_replicas),
        removing=_given(wanted.removing, before.removing_replicas),
        recovery=before.leader_recovery_state if wanted.recovery is None else wanted.recovery,
    )
    _end_reassignment(draft)
    draft.elr = _eligible(before, draft, wanted.lost, min_insync)
    _elect(before, draft, wanted.election, min_insync, may_lead)
    return _record(before, topic_id, index, draft)


def _given(wanted: Sequence[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if wanted is None else tuple(wanted)


def _end_reassignment(draft: _Draft) -> None:
    """Remove the replicas in `removing`, once all replicas that stay are in sync."""
    if not draft.adding and not draft.removing:
        return
    staying = tuple(each for each in draft.replicas if each not in draft.removing)
    if staying and set(staying) <= set(draft.isr):
        draft.replicas, draft.adding, draft.removing = staying, (), ()
        draft.isr = tuple(each for each in draft.isr if each in staying)


def _eligible(before: PartitionImage, draft: _Draft, lost: Sequence[int], min_insync: int) -> tuple[int, ...]:
    if draft.has_enough(min_insync):
        return ()
    had_all = {*before.elr, *before.isr}.difference(draft.isr, lost)
    return tuple(each for each in draft.replicas if each in had_all)


def _elect(before: PartitionImage, draft: _Draft, election: Election, min_insync: int, may_lead: MayLead) -> None:
    eligible = draft.isr or draft.elr
    chosen = next((each for each in _in_order(before, draft, election) if each in eligible and may_lead(each)), None)
    if chosen is not None:
        draft.leader = chosen
        if not draft.isr:
            draft.isr = (chosen,)
            draft.elr = () if draft.has_enough(min_insync) else tuple(each for each in draft.elr if each != chosen)
    elif not eligible or election is Election.UNCLEAN:
        _elect_beyond(before, draft, may_lead, anyone=election is Election.UNCLEAN)


def _in_order(before: PartitionImage, draft: _Draft, election: Election) -> Sequence[int]:
    if election is Election.PREFERRED:
        return (draft.replicas[0], before.leader, *draft.replicas)
    return (before.leader, *draft.replicas)


def _elect_beyond(before: PartitionImage, draft: _Draft, may_lead: MayLead, *, anyone: bool) -> None:
    """Elect the last known leader if no replica is eligible, or `anyone`; the ISR is that leader alone."""
    known = [each for each in before.last_known_elr if each in draft.replicas]
    candidates = (*known, *draft.replicas) if anyone else known
    chosen = next((each for each in candidates if may_lead(each)), None)
    if chosen is not None:
        draft.leader, draft.isr, draft.elr = chosen, (chosen,), ()
        draft.recovery = RECOVERING


def _last_known(before: PartitionImage, draft: _Draft) -> tuple[int, ...]:
    """Returns the last known leader if the partition has no leader now, else an empty tuple.

    A replica that is removed deletes its log. If it is added again, it must not be elected for what it had.
    """
    if draft.leader != NO_LEADER:
        return ()
    known = before.last_known_elr if before.leader == NO_LEADER else (before.leader,)
    return tuple(each for each in known if each in draft.replicas)


def _record(before: PartitionImage, topic_id: UUID, index: int, draft: _Draft) -> PartitionChangeRecord | None:
    last_known = _last_known(before, draft)
    new_epoch = draft.leader != before.leader or not set(before.replicas) <= set(draft.replicas)
    record = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_if_changed(draft.isr, before.isr),
        leader=draft.leader if new_epoch else _LEADER_UNCHANGED,
        replicas=_if_changed(draft.replicas, before.replicas),
        removing_replicas=_if_changed(draft.removing, before.removing_replicas),
        adding_replicas=_if_changed(draft.adding, before.adding_replicas),
        leader_recovery_state=_STATE_UNCHANGED if draft.recovery == before.leader_recovery_state else draft.recovery,
        eligible_leader_replicas=_if_changed(draft.elr, before.elr),
        last_known_elr=_if_changed(last_known, before.last_known_elr),
    )
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic_id) else record


def _if_changed(after: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if after == before else after
