"""An unfinished segment: a log of its own, whose batches are moved to the partition's log in one transaction."""

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from odradek.partitions.model import AbortedTransaction, SegmentInfo, StoredBatch
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.sql.columns import statements as columns
from odradek.storage_backends.sql.columns.decoding import Rows, rows_of
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
    has_rows: bool = False
    aborted: tuple[AbortedTransaction, ...] = ()
    discarded: bool = False
    placed: bool = field(default=False)

    def add(self, batches: Sequence[StoredBatch]) -> None:
        """See `SegmentDraft.add`."""
        owned = [replace(batch, data=bytes(batch.data)) for batch in batches]
        size_bytes = sum(len(batch.data) for batch in owned)
        rows = rows_of(owned) if self.has_rows else Rows()

        def insert(connection: Connection) -> None:
            insert_batches(connection, self.log, owned)
            columns.insert(connection, self.log, rows)

        self.store.group.run(insert, size_bytes + rows.size_bytes)
        for batch in owned:
            self.segment = self.segment.with_batch(batch)

    def seal(self, aborted: Sequence[AbortedTransaction]) -> None:
        """See `SegmentDraft.seal`: added batches are already durable."""
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
