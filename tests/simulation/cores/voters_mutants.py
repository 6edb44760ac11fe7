"""Bugs to plant in changes of voters: each removes one safety step, and breaks the invariant named with it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from plant import inside, plant
from quorum_faults import SECOND, Faults
from quorum_invariants import Invariant

from odradek.coordinator.quorum import changes
from odradek.coordinator.quorum.leadership import Leadership
from odradek.coordinator.quorum.quorum import Quorum

LOSING = Faults(
    sync_us=(100, 20_000), kinds=("wipe", "cut_off", "split", "crash"), every_us=SECOND // 2, keeps_unsynced=0.0
)
"""Disks that are lost, and leaders that are cut off during a change."""


def used_from_commit_on(patch: pytest.MonkeyPatch) -> None:
    """A voter set is in force only once it is committed."""
    take_voters = inside(Quorum, "_take_voters")

    def late(self: Any, now_ms: int) -> None:
        named = self._log.voters
        if named is None or named.offset < self.high_watermark or not self._directories:
            take_voters(self, now_ms)

    plant(patch, Quorum, "_take_voters", late)


def second_change_before_the_first_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A leader does not wait for the commit of the last change."""

    not_settled = inside(changes, "_not_settled")

    def at_once(quorum: Any) -> Any:
        refused = not_settled(quorum)
        return refused if refused is not None else quorum.voters_in_log.voters

    plant(patch, changes, "_changeable", at_once)


def removed_leader_counts(patch: pytest.MonkeyPatch) -> None:
    """A leader that is no longer a voter counts its own log."""
    set_voters = Leadership.set_voters

    def counting(self: Any, *args: Any) -> None:
        set_voters(self, *args)
        self._own_vote = 1

    patch.setattr(Leadership, "set_voters", counting)


def directories_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A node that has lost its disk counts as the voter that it was."""
    patch.setattr(Leadership, "is_voter", lambda self, replica: replica.id in self.voters)


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    broken: Invariant
    voters: int = 3
    faults: Faults | None = None


MUTANTS = {
    "used_from_commit_on": Mutant(used_from_commit_on, Invariant.MAJORITY),
    "second_change_before_the_first_is_committed": Mutant(
        second_change_before_the_first_is_committed, Invariant.OVERLAP
    ),
    "removed_leader_counts": Mutant(removed_leader_counts, Invariant.MAJORITY),
    "directories_not_compared": Mutant(directories_not_compared, Invariant.MAJORITY, faults=LOSING),
}
