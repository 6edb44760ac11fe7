"""Bugs to plant: each violates one invariant of the broker, and the simulation must detect that.

A mutant patches the production classes through pytest's MonkeyPatch, which undoes it when the test ends.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from plant import plant
from sim_log_mutants import COMPACTION_MUTANTS, GROUP_MUTANTS, RETENTION_MUTANTS
from sim_transaction_mutants import TRANSACTION_MUTANTS

from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.metadata.topic_names import CLUSTER_METADATA, CONSUMER_OFFSETS
from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.handlers import produce
from odradek.gateway.replication.commit import CommitQueue
from odradek.gateway.replication.replica import Replica
from odradek.gateway.server import pipeline
from odradek.gateway.testing.simulation import Disk
from odradek.gateway.testing.simulation.loads.oracle import Invariant
from odradek.partitions.model import LogWrite, PartitionKey
from odradek.partitions.producers import Producers
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import PartitionStore, StoreError
from odradek.storage_backends.memory import MemoryPartition
from odradek.storage_backends.memory.medium import MediumLog
from odradek.wire.errors import ErrorCode
from odradek.wire.frames import FrameReader

Mutant = Callable[[pytest.MonkeyPatch], None]
_REUSED = bytearray(1_000_000)


def reply_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Produce is acknowledged as soon as its batch is queued."""
    patch.setattr(produce, "Gathered", lambda _writes, make: completed(make()))
    plant(patch, produce, "_outcome", lambda response, _write: response)


def commit_without_sync(patch: pytest.MonkeyPatch) -> None:
    """A sync of the disk does nothing."""
    apply = MediumLog.apply
    patch.setattr(MediumLog, "apply", lambda self, runs, *, sync: apply(self, runs, sync=sync and False))


def read_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Batches can be read before they are synced; Produce is answered after the sync. Syncs are slow."""
    init, submit, commit = CommitQueue.__init__, CommitQueue.submit, MemoryPartition.commit
    parts: dict[CommitQueue, tuple[PartitionStore, Callable[[int], None]]] = {}
    newest: dict[PartitionKey, Completion[None]] = {}

    def remember(self: CommitQueue, store: PartitionStore, *rest: Any, on_durable: Any, **more: Any) -> None:
        parts[self] = store, on_durable
        init(self, store, *rest, on_durable=on_durable, **more)

    def eager(self: CommitQueue, write: LogWrite, end_offset: int) -> Completion[None]:
        durable = submit(self, write, end_offset)
        store, on_durable = parts[self]
        newest[store.key] = durable
        with suppress(StoreError):
            store.commit([write], sync=False)
            on_durable(end_offset)
        return durable

    def commit_rest(self: MemoryPartition, writes: Any, *, sync: bool) -> None:
        end = self.load().log_end_offset
        rest = [each for each in writes if not each.batches or each.batches[0].base_offset >= end]
        commit(self, rest, sync=sync)

    def on_disk(self: Replica, _offset: int) -> Completion[None]:
        return newest.get(self.key, completed(None))

    patch.setattr(CommitQueue, "__init__", remember)
    patch.setattr(CommitQueue, "submit", eager)
    patch.setattr(Replica, "committed", on_disk)
    patch.setattr(Disk, "busy_s", lambda _self: (0.05, 0.0))
    patch.setattr(MemoryPartition, "commit", commit_rest)


def _forget_writes(patch: pytest.MonkeyPatch, topic: str) -> None:
    """No reply waits for commits to this internal topic."""
    committed = Replica.committed
    patch.setattr(
        Replica,
        "committed",
        lambda self, offset: completed(None) if self.key.topic == topic else committed(self, offset),
    )


def coordinator_replies_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Group coordinators reply, also to offset commits, before the records are durable."""
    _forget_writes(patch, CONSUMER_OFFSETS)


def failed_commit_is_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """A Produce response reports success although the store's commit has failed."""
    plant(patch, produce, "_outcome", lambda response, _write: response)


def failed_commit_is_kept_in_mind(patch: pytest.MonkeyPatch) -> None:
    """After a failed commit the log in memory stays ahead of the store, and is treated as durable."""

    def failed(self: Any, error: StoreError) -> None:
        self._queue.reset(self._part)
        self._durable_waits.fail(error)
        self._committed_waits.fail(error)
        self._role.durable(self._log.log_end_offset)

    plant(patch, Replica, "_failed", failed)


def producers_forgotten_at_start(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker has no producer state."""
    restore = PartitionState.restore.__func__  # type: ignore[attr-defined]
    patch.setattr(
        PartitionState,
        "restore",
        classmethod(lambda cls, snapshot, *rest: restore(cls, replace(snapshot, producers={}), *rest)),
    )


def producers_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Producer state is left out of the transaction that stores the batch."""
    commit = MemoryPartition.commit

    def without(self: MemoryPartition, writes: Any, *, sync: bool) -> None:
        commit(self, [replace(write, producers={}) for write in writes], sync=sync)

    patch.setattr(MemoryPartition, "commit", without)


def duplicates_appended(patch: pytest.MonkeyPatch) -> None:
    """A retried batch is appended as a new one."""
    check = Producers.check_batch

    def lax(self: Producers, *rest: Any) -> Any:
        refused = check(self, *rest)
        return None if refused and refused.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER else refused

    patch.setattr(Producers, "find_duplicate", lambda _self, _header: None)
    patch.setattr(Producers, "check_batch", lax)


def zombies_may_commit(patch: pytest.MonkeyPatch) -> None:
    """Offset commits of removed members, or in an older generation, are accepted."""
    patch.setattr(ClassicGroup, "check_offset_commit", lambda *_: ErrorCode.NONE)


def lost_first_batches_forgotten(patch: pytest.MonkeyPatch) -> None:
    """After the commit of a producer's first batch has failed, the batches in flight after it are accepted."""
    patch.setattr(PartitionState, "await_first_batch_retry", lambda _self, _lost: None)


def images_published_before_commit(patch: pytest.MonkeyPatch) -> None:
    """Topics are published, and CreateTopics is answered, before they are committed in the metadata log."""
    _forget_writes(patch, CLUSTER_METADATA)


def receive_buffer_reused(patch: pytest.MonkeyPatch) -> None:
    """A connection's buffer is overwritten while its batches still wait for their commit."""

    class Reusing(FrameReader):
        def received(self, size: int) -> list[memoryview]:
            frames, end = super().received(size), 0
            for index, frame in enumerate(frames):
                start, end = end, end + len(frame)
                _REUSED[start:end] = frame
                frames[index] = memoryview(_REUSED)[start:end]
            return frames

    patch.setattr(pipeline, "FrameReader", Reusing)


def log_lost_at_start(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker assigns the newest batch's offset again: it opens the log without the last commit."""
    cut_power = MediumLog.cut_power

    def cut(self: MediumLog, survivors: Any) -> None:
        cut_power(self, survivors)
        last = self.live.segments[-1].batches
        if last:
            self.truncate(last[-1].base_offset, {})

    patch.setattr(MediumLog, "cut_power", cut)


class Planted(NamedTuple):
    """A bug, the invariant that it violates and by which it must be found, and the load with which it is found."""

    plant: Mutant
    breaks: Invariant
    load: str
    first: int = 0
    """The first seed to run; not 0 if the bug is rare and only later seeds find it."""


MUTANTS: dict[str, Planted] = {
    mutant.__name__: Planted(mutant, broken, load, *first)
    for load, mutants in (
        (
            "plain",
            (
                (reply_before_commit, Invariant.ACKNOWLEDGED_ONCE),
                (commit_without_sync, Invariant.ACKNOWLEDGED_ONCE),
                (read_before_commit, Invariant.READS_REPEAT),
                (coordinator_replies_before_commit, Invariant.COMMITS_KEPT),
                (failed_commit_is_acknowledged, Invariant.ACKNOWLEDGED_ONCE),
                (failed_commit_is_kept_in_mind, Invariant.ACKNOWLEDGED_ONCE),
                (producers_forgotten_at_start, Invariant.EXACTLY_ONCE),
                (producers_not_stored, Invariant.EXACTLY_ONCE),
                (duplicates_appended, Invariant.EXACTLY_ONCE),
                (zombies_may_commit, Invariant.FENCED_COMMITS_REFUSED),
                (lost_first_batches_forgotten, Invariant.PRODUCE_ACCEPTED, 40),
                (images_published_before_commit, Invariant.TOPICS_KEPT),
                (receive_buffer_reused, Invariant.BYTES_KEPT),
                (log_lost_at_start, Invariant.ACKNOWLEDGED_ONCE),
            ),
        ),
        ("transactions", TRANSACTION_MUTANTS),
        ("groups", GROUP_MUTANTS),
        ("compaction", COMPACTION_MUTANTS),
        ("retention", RETENTION_MUTANTS),
    )
    for mutant, broken, *first in mutants
}
