"""The newest offset of each key, in a fixed amount of memory however long the keys are.

An open-addressed table of 24-byte slots, 16 for a hash of the key and 8 for the offset, as Kafka's offset map is one.
That two keys have the same hash is as good as impossible.
"""

from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
_HASH_BYTES: Final = 16
_LEAST_SLOTS: Final = 16
_UNUSED: Final = bytes(SLOT_BYTES - _HASH_BYTES)
UNKNOWN: Final = -1


class OffsetMap:
    """A hash map of keys to their newest offset, of at most `max_bytes`, filled up to `load_factor`.

    `expected` is an upper bound of the number of keys, for which a smaller map may do.
    """

    def __init__(self, max_bytes: int, load_factor: float, expected: int) -> None:
        slots = max(min(max_bytes // SLOT_BYTES, int(expected / load_factor) + 1), _LEAST_SLOTS)
        self._slots = slots
        self._limit = max(int(slots * load_factor), 1)
        self._table = bytearray(slots * SLOT_BYTES)
        self._count = 0
        self.latest_offset = UNKNOWN
        """The last offset whose key is known, or that needs none."""

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """The memory of the table."""
        return len(self._table)

    def put(self, key: bytes, offset: int) -> bool:
        """Note the key's newest offset; False when the map is full, and then nothing is noted."""
        if self._count >= self._limit:
            return False
        digest, position, found = self._find(key)
        if not found:
            self._count += 1
        self._table[position : position + SLOT_BYTES] = digest + (offset + 1).to_bytes(8, "big")
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """The key's newest offset, -1 when the key did not come."""
        _, position, found = self._find(key)
        if not found:
            return UNKNOWN
        return int.from_bytes(self._table[position + _HASH_BYTES : position + SLOT_BYTES], "big") - 1

    def _find(self, key: bytes) -> tuple[bytes, int, bool]:
        """The key's hash, its slot's position (or that of the slot to use), and whether it is there."""
        digest = blake2b(key, digest_size=_HASH_BYTES).digest()
        table, slots = self._table, self._slots
        slot = int.from_bytes(digest[:8], "big") % slots
        while True:
            position = slot * SLOT_BYTES
            if table.startswith(digest, position):
                return digest, position, True
            if table.startswith(_UNUSED, position + _HASH_BYTES):
                return digest, position, False
            slot = (slot + 1) % slots
