"""Producer ids, handed out from blocks that the metadata log granted, so that no id is ever given twice (KIP-730)."""

import trio

from odradek.gateway.metadata.service import MetadataService


class ProducerIds:
    """The broker's current block of producer ids."""

    def __init__(self, metadata: MetadataService) -> None:
        self._metadata = metadata
        self._next = 0
        self._end = 0
        self._lock = trio.Lock()

    async def allocate(self) -> int:
        """A producer id that nobody was given before, whatever was restarted since. Raises CoordinatorUnavailable."""
        async with self._lock:
            if self._next >= self._end:
                self._next, length = await self._metadata.allocate_producer_ids()
                self._end = self._next + length
            self._next += 1
            return self._next - 1
