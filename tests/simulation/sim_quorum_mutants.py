"""Bugs to plant where the quorum's state machine uses log, disk and image; bugs inside it are in `cores/`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from plant import plant
from sim_quorum import Invariant

from odradek.gateway.quorum.metadata_log import MetadataReplica, QuorumLeader


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    broken: Invariant


def committed_here_alone(patch: pytest.MonkeyPatch) -> None:
    """Records count as committed when they are durable on the leader alone: images change back, which ends nodes."""
    plant(patch, QuorumLeader, "_advance", lambda self: self.state.raise_high_watermark(self.state.durable_end_offset))


def image_of_the_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """Followers publish all their records, committed or not."""
    commit_to = MetadataReplica.commit_to

    def all_of_it(self: Any, offset: int) -> None:
        commit_to(self, max(offset, self.durable_end_offset))

    patch.setattr(MetadataReplica, "commit_to", all_of_it)


MUTANTS = {
    "committed_here_alone": Mutant(committed_here_alone, Invariant.NO_CRASH),
    "image_of_the_uncommitted": Mutant(image_of_the_uncommitted, Invariant.ONE_HISTORY),
}
