"""Assembles a downloaded snapshot: parts of any length become complete batches in a log of the store."""

from collections.abc import Sequence
from typing import Final

from odradek.coordinator.metadata.image.checkpoint import SnapshotReader
from odradek.partitions.model import LogWrite, PartitionKey, StoredBatch
from odradek.storage_backends.interface import LogPolicy, Store
from odradek.wire.records.batch import batch_bytes, iter_headers
from odradek.wire.records.errors import CorruptBatch

MAX_BATCH_BYTES: Final = 64 << 20
"""The maximum size of a batch; a leader writes batches of a thousand records."""


class Staging:
    """One download. Every batch is checked and replayed on arrival, so a complete snapshot is known to be readable."""

    def __init__(self, store: Store, key: PartitionKey, policy: LogPolicy) -> None:
        self.key = key
        self.reader = SnapshotReader()
        self._store = store
        self._policy = policy
        self._position = 0
        self._rest = b""
        self._size_bytes = -1

    @property
    def is_whole(self) -> bool:
        """True if all parts have been taken."""
        return self.reader.is_whole and self._position == self._size_bytes and not self._rest

    def take(self, position: int, data: bytes, size_bytes: int) -> Sequence[StoredBatch]:
        """Take a part; returns the batches that it completes. Raises InvalidRecordBatch, ProtocolError."""
        if position != self._position:
            raise CorruptBatch(f"a part of the snapshot goes on at {position}, not at {self._position}")
        self._position, self._size_bytes = position + len(data), size_bytes
        held = memoryview(self._rest + data)
        batches: list[StoredBatch] = []
        taken = 0
        for header in iter_headers(held, allow_partial_tail=True):
            whole = batch_bytes(held, header)
            self.reader.add(whole)
            batches.append(StoredBatch(header.base_offset, header.last_offset, header.max_timestamp, whole))
            taken = header.end_position
        self._rest = bytes(held[taken:])
        if len(self._rest) > MAX_BATCH_BYTES:
            raise CorruptBatch(f"a batch of the snapshot has more than {MAX_BATCH_BYTES} bytes")
        if self._position >= size_bytes and not self.is_whole:
            raise CorruptBatch("the snapshot ends without its footer")
        return batches

    def commit(self, batches: Sequence[StoredBatch]) -> None:
        """Make batches durable. Blocks. Raises StoreError."""
        part = self._store.open(self.key, self._policy)
        try:
            if batches:
                part.commit([LogWrite(batches)], sync=True)
        finally:
            part.close()
