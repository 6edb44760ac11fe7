"""A leader's answers about epochs are the same after compaction has replaced its segments (KAFKA-20961)."""

import pytest
from partition_fakes import NOW_MS, data_batch
from plant import inside, plant

from odradek.partitions.config import LogConfig
from odradek.partitions.epochs import EpochHistory
from odradek.partitions.leader import Leader, lead
from odradek.partitions.model import EpochStart
from odradek.partitions.results import Appended, AppendOrigin, EpochEnd, FetchPlan, Isolation
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import truncation_point
from odradek.storage_backends.interface import LogPolicy, PartitionStore
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.log import MemoryDraft, MemoryLog
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.storage_backends.testing.keys import KEY

EPOCHS = (1, 2, 4, 7)
"""The epochs in which the leader has written four batches each."""


def compacted() -> tuple[Leader, Leader]:
    """A leader whose log has four epochs, and a leader over the same log after compaction has emptied the sealed
    segments.

    Both lead in epoch 9.
    """
    store: PartitionStore = MemoryStore(MemoryMedium()).open(KEY, LogPolicy(segment_bytes=300))
    state = PartitionState.restore(store.load(), LogConfig())
    for epoch in EPOCHS:
        role, write = lead(state, epoch)
        writes = [] if write is None else [write]
        for _ in range(4):
            result = role.append(data_batch(), origin=AppendOrigin.CLIENT, now_ms=NOW_MS)
            assert isinstance(result, Appended)
            writes.append(result.write)
            store.commit(writes, sync=True)
            writes = []
        role.durable(state.log_end_offset)
    before = PartitionState.restore(store.load(), LogConfig())
    sealed = [each for each in store.segments() if each.sealed]
    assert sealed[-1].end_offset >= 12
    draft = store.draft(0, sealed[-1].end_offset)
    draft.seal([])
    assert store.replace(draft)
    return lead(before, 9)[0], lead(PartitionState.restore(store.load(), LogConfig()), 9)[0]


def differing() -> list[int]:
    """The epochs for which the leader returns another end offset after compaction."""
    before, after = compacted()
    return [epoch for epoch in range(10) if before.epoch_end(epoch) != after.epoch_end(epoch)]


def test_every_epoch_ends_where_it_did_after_compaction() -> None:
    assert differing() == []


def test_a_follower_that_has_diverged_is_cut_in_the_same_place_after_compaction() -> None:
    own = EpochHistory([EpochStart(1, 0), EpochStart(2, 4), EpochStart(3, 10)])
    for leader in compacted():
        plan = leader.fetch(14, max_bytes=1, isolation=Isolation.LOG_END, last_fetched_epoch=3)
        assert isinstance(plan, FetchPlan)
        assert plan.diverging == EpochEnd(2, 8)
        assert truncation_point(own, 14, plan.diverging).offset == 8


def test_a_history_that_goes_with_the_segments_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = inside(MemoryLog, "replace")

    def forgetful(self: MemoryLog, draft: MemoryDraft) -> bool:
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start >= draft.end_offset}
        return replace(self, draft)

    plant(monkeypatch, MemoryLog, "replace", forgetful)
    assert differing() == [0, 1, 2, 3, 5, 6]
