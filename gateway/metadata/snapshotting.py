"""Writes snapshots of this node's image, and trims its metadata log before them, by Kafka's rules (KIP-630).

A snapshot is due when the log has grown by `metadata.log.max.record.bytes.between.snapshots` since the last one, or
when something has changed and `metadata.log.max.snapshot.interval.ms` have passed. The oldest snapshot, and the log up
to the next one, are deleted when they are older than `metadata.max.retention.ms`, or the log and the snapshots together
exceed `metadata.max.retention.bytes`. The newest snapshot is kept.
"""

import logging
from typing import Final

from odradek.coordinator.quorum.values import SnapshotId
from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.quorum import MetadataReplica
from odradek.partitions.results import Rejected
from odradek.storage_backends.interface import StoreError
from odradek.wire.records.batch import iter_headers

log = logging.getLogger(__name__)

CLEAN_EVERY_MS: Final = 60_000
"""The interval of checks for old snapshots, as in Kafka; also the pause after a snapshot has failed."""


class Snapshotter:
    """Writes and trims in one task, on every node."""

    def __init__(
        self, replica: MetadataReplica, publisher: MetadataPublisher, env: Environment, config: BrokerConfig
    ) -> None:
        self._replica = replica
        self._snapshots = replica.snapshots
        self._publisher = publisher
        self._env = env
        self._max_bytes = _number(config, "metadata.log.max.record.bytes.between.snapshots")
        self._interval_ms = _number(config, "metadata.log.max.snapshot.interval.ms")
        self._retention_bytes = _number(config, "metadata.max.retention.bytes")
        self._retention_ms = _number(config, "metadata.max.retention.ms")
        self._last_ms = env.monotonic_ms()
        self._not_before_ms = self._last_ms

    async def run(self) -> None:
        """Write and trim until cancelled."""
        changed = Signal()
        clean_ms = self._env.monotonic_ms() + CLEAN_EVERY_MS
        self._publisher.changes.watch(changed)
        try:
            while True:
                if self._wait_ms() == 0 or clean_ms <= self._env.monotonic_ms():
                    await self._work()
                    clean_ms = self._env.monotonic_ms() + CLEAN_EVERY_MS
                left_ms = clean_ms - self._env.monotonic_ms()
                wait_ms = self._wait_ms()
                await changed.wait(max(left_ms if wait_ms is None else min(left_ms, wait_ms), 0))
        finally:
            self._publisher.changes.unwatch(changed)

    async def _work(self) -> None:
        try:
            if self._wait_ms() == 0:
                await self._write()
            await self._trim()
        except (StoreError, PartitionUnavailable) as error:
            if isinstance(error, PartitionUnavailable) and not error.is_offline:
                return  # the node stops
            self._not_before_ms = self._env.monotonic_ms() + CLEAN_EVERY_MS
            message = "cannot write a snapshot of the metadata, or trim its log cause=%s"
            self._replica.repeats.note(message, log, logging.WARNING, message, error)

    def _wait_ms(self) -> int | None:
        """The time until a snapshot is due; None if none is due before the metadata changes."""
        newest = self._snapshots.newest
        if self._publisher.logged.offset + 1 <= (0 if newest is None else newest.end_offset):
            return None
        now_ms = self._env.monotonic_ms()
        if self._replica.unsnapshotted_bytes >= self._max_bytes:
            return max(self._not_before_ms - now_ms, 0)
        if not self._interval_ms:
            return None
        return max(self._last_ms + self._interval_ms - now_ms, self._not_before_ms - now_ms, 0)

    async def _write(self) -> None:
        image, since_bytes = self._publisher.logged, self._replica.unsnapshotted_bytes
        last_timestamp_ms = await self._timestamp_of(image.offset)
        voters = self._replica.voters_before(image.offset + 1)
        snapshot = await self._snapshots.write(image, last_timestamp_ms, voters)
        self._replica.unsnapshotted_bytes -= since_bytes
        self._last_ms = self._env.monotonic_ms()
        size_bytes = self._snapshots.known[snapshot].size_bytes
        text = "snapshot of the metadata end_offset=%d epoch=%d bytes=%d log_bytes_since_the_last=%d"
        log.info(text, *snapshot, size_bytes, since_bytes)

    async def _timestamp_of(self, offset: int) -> int:
        """The maximum timestamp of the batch with the record at `offset`; -1 if the log no longer has it."""
        await self._replica.ensure_open()
        state = self._replica.log
        if not state.log_start_offset <= offset < state.high_watermark:
            return -1
        lease = await self._replica.read(offset, state.high_watermark, 1)
        try:
            return next((header.max_timestamp for chunk in lease.chunks for header in iter_headers(chunk)), -1)
        finally:
            self._replica.give_back(lease)

    async def _trim(self) -> None:
        known = self._snapshots.known
        kept = list(known)
        total_bytes = sum(each.size_bytes for each in known.values()) + await self._log_bytes()
        while len(kept) > 1 and self._is_too_much(kept[0], total_bytes):
            total_bytes -= known[kept.pop(0)].size_bytes
        if kept and len(kept) < len(known):
            await self._replica.ensure_open()
            refused = await self._replica.move_log_start(kept[0].end_offset)
            if isinstance(refused, Rejected):  # this node does not know yet that so much is committed
                return
            await self._snapshots.drop_before(kept[0].end_offset)
            log.info("trimmed the metadata log log_start_offset=%d snapshots=%d", kept[0].end_offset, len(kept))

    async def _log_bytes(self) -> int:
        await self._replica.ensure_open()
        return sum(each.size_bytes for each in await self._replica.borrow(lambda part: part.segments()))

    def _is_too_much(self, snapshot: SnapshotId, total_bytes: int) -> bool:
        """True if the oldest snapshot, and the log before the next one, must be deleted."""
        age_ms = self._env.wall_ms() - self._snapshots.known[snapshot].last_timestamp_ms
        is_too_old = 0 <= self._retention_ms < age_ms
        return is_too_old or 0 <= self._retention_bytes < total_bytes


def _number(config: BrokerConfig, name: str) -> int:
    value = config.values[name]
    assert isinstance(value, int), name
    return value
