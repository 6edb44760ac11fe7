"""Bugs of transactions to plant; see `sim_mutants`."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.coordinator.groups.offsets.store import OffsetStore
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS
from odradek.coordinator.transactions import add, end
from odradek.coordinator.transactions.table import TransactionTable
from odradek.gateway.coordinators.markers import Marker
from odradek.gateway.coordinators.transactions import TransactionCoordinator
from odradek.gateway.testing.simulation.loads.oracle import Invariant
from odradek.partitions.model import PartitionKey
from odradek.partitions.reads import Reads
from odradek.partitions.results import FetchPlan
from odradek.wire.errors import ErrorCode


def aborted_transactions_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Fetch returns no aborted transactions to readers of committed records."""
    patch.setattr(Reads, "aborted_in", lambda *_: ())


def stable_offset_tells_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Fetch returns the high watermark as the last stable offset even if transactions are open."""
    fetch = Reads.fetch

    def ahead(self: Reads, *rest: Any, **more: Any) -> Any:
        plan = fetch(self, *rest, **more)
        return plan._replace(last_stable_offset=plan.high_watermark) if isinstance(plan, FetchPlan) else plan

    patch.setattr(Reads, "fetch", ahead)


def _write_markers(patch: pytest.MonkeyPatch, change: Callable[[PartitionKey, Marker], Marker]) -> None:
    begin_marker = TransactionCoordinator.begin_marker

    async def changed(self: Any, replica: Any, marker: Any, *rest: Any) -> Any:
        return await begin_marker(self, replica, change(replica.key, marker), *rest)

    patch.setattr(TransactionCoordinator, "begin_marker", changed)


def one_partition_aborts(patch: pytest.MonkeyPatch) -> None:
    """Partition 1 of each topic but `__consumer_offsets` always gets an abort marker."""

    def change(key: PartitionKey, marker: Marker) -> Marker:
        return marker._replace(committed=False) if key.index == 1 and key.topic != CONSUMER_OFFSETS else marker

    _write_markers(patch, change)


def offsets_always_commit(patch: pytest.MonkeyPatch) -> None:
    """The offsets of an aborted transaction are committed."""
    _write_markers(
        patch, lambda key, marker: marker._replace(committed=True) if key.topic == CONSUMER_OFFSETS else marker
    )


def offsets_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets committed in a transaction take effect before it has ended."""
    patch.setattr(OffsetStore, "put_pending", lambda self, _producer_id, *rest: self.put(*rest))


def pending_offsets_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Offsets committed in a transaction never take effect."""
    end_transaction = OffsetStore.end_transaction
    patch.setattr(
        OffsetStore, "end_transaction", lambda self, producer_id, _committed: end_transaction(self, producer_id, False)
    )


def records_always_abort(patch: pytest.MonkeyPatch) -> None:
    """The records of a committed transaction get abort markers."""
    _write_markers(
        patch, lambda key, marker: marker if key.topic == CONSUMER_OFFSETS else marker._replace(committed=False)
    )


def time_outs_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A transaction that times out stays open, and is not checked again."""
    pop_timed_out = TransactionTable.pop_timed_out

    def forget(self: TransactionTable, now_ms: int) -> None:
        while pop_timed_out(self, now_ms) is not None:
            pass

    patch.setattr(TransactionTable, "pop_timed_out", forget)


def epochs_ignored(patch: pytest.MonkeyPatch) -> None:
    """The transaction coordinator accepts requests of a producer that another one has fenced."""
    check_producer = add.check_producer

    def lax(*asked: Any) -> ErrorCode:
        error = check_producer(*asked)
        return ErrorCode.NONE if error is ErrorCode.PRODUCER_FENCED else error

    patch.setattr(add, "check_producer", lax)
    patch.setattr(end, "check_producer", lax)


TRANSACTION_MUTANTS = (
    (aborted_transactions_forgotten, Invariant.ABORTED_HIDDEN),
    (stable_offset_tells_the_high_watermark, Invariant.STABLE_OFFSET_WAITS),
    (one_partition_aborts, Invariant.ATOMIC),
    (offsets_always_commit, Invariant.OFFSETS_WITH_COMMIT),
    (offsets_count_at_once, Invariant.OFFSETS_WITH_COMMIT),
    (pending_offsets_forgotten, Invariant.COMMITS_KEPT),
    (records_always_abort, Invariant.COMMITTED_SHOWN),
    (time_outs_forgotten, Invariant.TRANSACTIONS_END),
    (epochs_ignored, Invariant.ZOMBIES_FENCED),
)
