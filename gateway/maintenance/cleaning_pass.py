"""One cleaning pass over one log, in steps; see `gateway/maintenance/cleaner.py`."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.replication.replica import Replica
from odradek.partitions.compaction.cleaner import BatchFilter, KeyIndex, LastEntry
from odradek.partitions.compaction.offset_map import OffsetMap
from odradek.partitions.compaction.plan import Cleaning, group_segments
from odradek.partitions.model import AbortedTransaction, SegmentInfo
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import OffsetNotInStoreError, PartitionStore, SegmentDraft

log = logging.getLogger(__name__)

T = TypeVar("T")

UNLIMITED_BYTES_PER_SECOND: Final = 1e15
"""From this value on, `log.cleaner.io.max.bytes.per.second` means no limit; so do 0, negative values and NaN."""


class LogChanged(Exception):  # noqa: N818 - no error
    """The log was truncated, or its start moved, during the cleaning pass; the next pass starts over."""


class CleaningPass:
    """One cleaning pass over one log."""

    def __init__(self, replica: Replica, cleaning: Cleaning, env: Environment, config: BrokerConfig) -> None:
        self._replica = replica
        self._cleaning = cleaning
        self._env = env
        self._config = config
        self._version: tuple[PartitionState, int] | None = None
        self._offsets = OffsetMap(
            config.log_cleaner_dedupe_buffer_size // max(config.cleaner_threads, 1),
            config.log_cleaner_io_buffer_load_factor,
            cleaning.end_offset - cleaning.first_dirty_offset,
        )

    async def run(self) -> None:
        """Clean the log. Raises LogChanged, InvalidRecordBatch, PartitionUnavailable, StoreError."""
        replica, dirty = self._replica, self._cleaning
        await replica.ensure_open()
        self._version = self._version_now()
        await self._index()
        clean_offset = self._offsets.latest_offset + 1
        before, after = await self._filter(clean_offset)
        self._check_unchanged()
        await replica.mark_clean(clean_offset).wait()
        log.info(
            "compacted partition=%s dirty_offsets=%d-%d keys=%d bytes=%d->%d",
            replica.key,
            dirty.first_dirty_offset,
            clean_offset,
            len(self._offsets),
            before,
            after,
        )

    def _version_now(self) -> tuple[PartitionState, int]:
        log = self._replica.log
        return log, log.truncations

    def _check_unchanged(self) -> None:
        """Raise LogChanged if the log was truncated or opened again: records that were indexed may be gone."""
        if self._version_now() != self._version:
            raise LogChanged

    async def _index(self) -> None:
        """Index the newest offset of each key of the dirty part, as far as the map has room."""
        cleaning = self._cleaning
        index = KeyIndex(self._offsets, cleaning.first_dirty_offset, self._replica.log.aborted)
        offset = cleaning.first_dirty_offset
        while offset < cleaning.end_offset and not index.is_full:
            offset = await self._step(partial(_read, offset, cleaning.end_offset, self._step_bytes, index.add))
        if not index.is_full:
            index.passed(cleaning.end_offset)

    async def _filter(self, clean_offset: int) -> tuple[int, int]:
        """Rewrite all segments below `clean_offset`; return their bytes before and after."""
        view = await self._replica.view()
        config = self._replica.config
        batches = BatchFilter(
            self._offsets,
            self._replica.log.aborted,
            end_offset=self._cleaning.end_offset,
            delete_retention_ms=config.delete_retention_ms,
            now_ms=self._env.wall_ms(),
        )
        before = after = 0
        for group in group_segments(view.segments, clean_offset, config.segment_bytes):
            before += sum(info.size_bytes for info in group)
            after += await self._rewrite(group, batches)
        return before, after

    async def _rewrite(self, group: Sequence[SegmentInfo], batches: BatchFilter) -> int:
        """Replace a run of segments by its cleaned records; return their size."""
        base_offset, end_offset = group[0].base_offset, group[-1].end_offset
        batches.last_entries = {
            producer_id: LastEntry(entry.last_offset, entry.producer_epoch)
            for producer_id, entry in self._replica.log.producers.items()
        }
        draft = await self._borrow(lambda part: part.draft(base_offset, end_offset))
        try:
            size_bytes = await self._fill(draft, group, batches)
            await self._swap_in(draft, (base_offset, end_offset), batches.take_reported())
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._env.run_blocking(draft.discard)
            raise
        return size_bytes

    async def _swap_in(self, draft: SegmentDraft, run: tuple[int, int], aborted: Sequence[AbortedTransaction]) -> None:
        await self._borrow(lambda _: draft.seal(aborted))
        self._check_unchanged()
        if not await self._replica.replace(run, draft, aborted):
            raise LogChanged

    async def _fill(self, draft: SegmentDraft, group: Sequence[SegmentInfo], batches: BatchFilter) -> int:
        offset = max(group[0].base_offset, self._replica.log.log_start_offset)
        end_offset = group[-1].end_offset
        size_bytes = 0

        def copy(chunk: memoryview) -> int:
            nonlocal size_bytes
            kept, next_offset = batches.keep(chunk)
            size_bytes += sum(len(batch.data) for batch in kept)
            if kept:
                draft.add(kept)
            return next_offset

        while offset < end_offset:
            offset = await self._step(partial(_read, offset, end_offset, self._step_bytes, copy))
        return size_bytes

    @property
    def _step_bytes(self) -> int:
        return max(self._config.log_cleaner_io_buffer_size // max(self._config.cleaner_threads, 1), 1)

    async def _step(self, step: Callable[[PartitionStore], int]) -> int:
        """Take one step, throttled to `log.cleaner.io.max.bytes.per.second`; return the next offset."""
        next_offset = await self._borrow(step)
        rate = self._config.log_cleaner_io_max_bytes_per_second
        await trio.sleep(self._step_bytes / rate if 0 < rate < UNLIMITED_BYTES_PER_SECOND else 0)
        return next_offset

    async def _borrow(self, call: Callable[[PartitionStore], T]) -> T:
        try:
            return await self._replica.borrow(call)
        except (OffsetNotInStoreError, ValueError) as error:
            raise LogChanged from error


def _read(offset: int, end_offset: int, max_bytes: int, use: Callable[[memoryview], int], part: PartitionStore) -> int:
    """Call `use` with the batches from `offset` on; return the offset to continue at."""
    lease = part.read(offset, end_offset, max_bytes)
    try:
        return max([use(chunk) for chunk in lease.chunks], default=end_offset)
    finally:
        lease.release()
