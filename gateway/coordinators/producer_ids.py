"""Allocates producer ids from blocks that the metadata log granted, so that no id is allocated twice (KIP-730)."""

import trio

from odradek.gateway.metadata.client import ControllerClient


class ProducerIds:
    """The broker's current block of producer ids."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller
        self._next = 0
        self._end = 0
        self._lock = trio.Lock()

    async def allocate(self) -> int:
        """A producer id that was never allocated before, restarts included. Raises CoordinatorUnavailable."""
        async with self._lock:
            if self._next >= self._end:
                block = await self._controller.producer_id_block()
                self._next, self._end = block.first, block.first + block.size
            self._next += 1
            return self._next - 1

    async def reserve(self, producer_id: int) -> None:
        """Do not allocate `producer_id` or a smaller one from now on: another cluster has allocated it.

        Ids above `MAX_RESERVED` are never reached. Raises CoordinatorUnavailable.
        """
        from odradek.coordinator.metadata.controller.producer_ids import MAX_RESERVED

        if producer_id < self._next or producer_id > MAX_RESERVED:
            return
        async with self._lock:
            if producer_id >= self._end:
                self._next = self._end = await self._controller.reserve_producer_ids(producer_id)
            self._next = max(self._next, producer_id + 1)
