"""A segment in the making: a log of its own, whose batches move to their log at once when it is put in its place."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from odradek.partitions.model import AbortedTransaction, SegmentInfo, StoredBatch
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.sql.state import SegmentState
from odradek.storage_backends.sql.statements import insert_batches
from odradek.wire.values import mutable

if TYPE_CHECKING:
    from odradek.storage_backends.sql.store import SqlStore


@mutable
class SqlDraft:
    """See `SegmentDraft`."""

    store: "SqlStore"
    log: int
    base_offset: int
    end_offset: int
    sources: tuple[SegmentInfo, ...]
    segment: SegmentState
    aborted: tuple[AbortedTransaction, ...] = ()
    discarded: bool = False
    placed: bool = field(default=False)

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """See `SegmentDraft.add`."""
        owned = [replace(batch, data=bytes(batch.data)) for batch in batches]
        size_bytes = sum(len(batch.data) for batch in owned)
        self.store.group.run(lambda connection: insert_batches(connection, self.log, owned), size_bytes)
        for batch in owned:
            self.segment = self.segment.with_batch(batch)

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """See `SegmentDraft.seal`: what was added is durable already."""
        self.aborted = tuple(aborted)

    def discard(self) -> None:
        """See `SegmentDraft.discard`."""
        if self.discarded or self.placed:
            return
        self.discarded = True
        try:
            self.store.give_up(self.log)
        except StoreError as error:
            self.store.note_left_over(error)
