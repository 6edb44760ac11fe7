"""Reads committed metadata into this node's image: the newest snapshot if necessary, then the log.

A node that starts has no image: it loads the newest snapshot, which is shorter than the log before it, and then the log
after it. A node whose log was truncated and restarted after a snapshot loads that, and publishes the difference.
"""

import trio

from odradek.coordinator.metadata.controller.shard import MetadataShard
from odradek.coordinator.metadata.image.difference import difference
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.gateway.coordinators.errors import unavailable
from odradek.gateway.coordinators.runtime import LOAD_CHUNK_BYTES, replayed
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.quorum import QuorumDriver
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.records.errors import InvalidRecordBatch


class MetadataReader:
    """Publishes committed metadata.

    Methods raise PartitionUnavailable, StoreError, InvalidRecordBatch and ProtocolError.
    """

    def __init__(self, quorum: QuorumDriver, publisher: MetadataPublisher, config: MetadataConfig) -> None:
        self._quorum = quorum
        self._publisher = publisher
        self._config = config
        self._next_offset = 0

    @property
    def next_offset(self) -> int:
        """The end of what was read and published, batches without metadata included."""
        return max(self._next_offset, self._publisher.logged.offset + 1)

    async def open(self) -> None:
        """Open the quorum, and load the newest snapshot. Converts these errors to CoordinatorUnavailable."""
        try:
            await self._quorum.open()
            await self.load_snapshot()
        except PartitionUnavailable as error:
            raise unavailable(error) from error
        except (StoreError, ProtocolError, InvalidRecordBatch) as error:
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    async def load_snapshot(self) -> None:
        """Publish the newest snapshot if the image is empty, or ends before the log's start offset."""
        replica, publisher = self._quorum.replica, self._publisher
        before, newest = publisher.logged, replica.newest_snapshot
        next_offset = before.offset + 1
        if newest is None or newest.end_offset <= next_offset:
            return
        if before.offset >= 0 and next_offset >= replica.log.log_start_offset:
            return
        is_first = before.offset < 0
        reader = await replica.snapshots.load(newest, before if is_first else None)
        image = reader.image(*newest)
        publisher.publish(reader.delta if is_first else difference(before, image))
        self._next_offset = newest.end_offset

    async def read(self) -> None:
        """Publish the committed records that are not published yet, those of the log in one delta."""
        replica, publisher = self._quorum.replica, self._publisher
        await replica.ensure_open()
        await self.load_snapshot()
        offset = self.next_offset
        end = replica.log.high_watermark
        if offset >= end:
            return
        shard = MetadataShard(self._config, iter(()), publisher.logged)
        while offset < end:
            lease = await replica.read(offset, end, LOAD_CHUNK_BYTES)
            try:
                if not lease.chunks:
                    break
                for chunk in lease.chunks:
                    for offset in replayed(shard, chunk, 0):  # noqa: B007 - the last one counts
                        await trio.lowlevel.checkpoint()
            finally:
                replica.give_back(lease)
        self._next_offset = offset
        if shard.image.offset > publisher.logged.offset:
            publisher.publish(shard.take_delta())
