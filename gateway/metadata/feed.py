"""Applies committed metadata records to this node's image, and activates the controller when this node leads.

On every node, leader or not, the committed records of the metadata log are replayed and published in the order of the
log. While this node is the active controller, its shard has replayed them as it decided, and publishes them itself once
they are committed; the feed pauses then, and continues from the published image afterwards.
"""

import logging
from collections.abc import Callable

import trio

from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.reading import MetadataReader
from odradek.gateway.quorum import QuorumDriver
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ProtocolError
from odradek.wire.records.errors import InvalidRecordBatch

log = logging.getLogger(__name__)

RETRY_S = 0.1
"""The pause after the log could not be read, in seconds."""


class MetadataFeed:
    """Feeds the image in one task. `caught_up` is set when the image is first as new as the leader's.

    `new_cluster_id` returns the id for a new cluster if this node becomes its first leader.
    """

    def __init__(
        self,
        quorum: QuorumDriver,
        controller: Controller,
        publisher: MetadataPublisher,
        reader: MetadataReader,
        new_cluster_id: Callable[[], str],
    ) -> None:
        self.caught_up = trio.Event()
        self._quorum = quorum
        self._controller = controller
        self._publisher = publisher
        self._reader = reader
        self._new_cluster_id = new_cluster_id

    async def run(self) -> None:
        """Feed until cancelled."""
        changed = Signal()
        self._quorum.changes.watch(changed)
        try:
            while True:
                try:
                    await self._step()
                except (PartitionUnavailable, CoordinatorUnavailable, StoreError) as error:
                    log.debug("the metadata log does not serve cause=%s", error)
                    await trio.sleep(RETRY_S)
                except (ProtocolError, InvalidRecordBatch) as error:
                    message = "the metadata log holds what this version cannot read cause=%s"
                    self._quorum.replica.repeats.note(message, log, logging.ERROR, message, error)
                    await trio.sleep(RETRY_S)
                else:
                    await changed.wait()
        finally:
            self._quorum.changes.unwatch(changed)

    async def _step(self) -> None:
        epoch = self._quorum.active_epoch
        if self._controller.epoch not in (None, epoch):
            self._controller.deactivate()
            self._quorum.changes.notify()
        if self._controller.epoch is None:
            await self._reader.read()
            epoch = self._quorum.active_epoch
            if epoch is not None:
                await self._controller.activate(epoch)
                self._quorum.changes.notify()
        if self._controller.epoch is not None and not self._publisher.logged.cluster_id:
            await self._controller.found(self._new_cluster_id())
        is_current = self._controller.epoch is not None or self._has_all()
        if is_current and not self.caught_up.is_set() and self._publisher.logged.cluster_id:
            self._publisher.begin_counting()
            self.caught_up.set()

    def _has_all(self) -> bool:
        """True if the image has all that is committed: more may have been committed while the log was read."""
        core = self._quorum.core
        return core.is_caught_up and self._reader.next_offset >= core.high_watermark
