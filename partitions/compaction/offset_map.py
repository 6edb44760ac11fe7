"""The newest offset of each key, in a fixed amount of memory whatever the length of the keys.

An open-addressed table of 24-byte slots (a 16-byte hash of the key and an 8-byte offset), like Kafka's offset map. Hash
collisions between different keys are so improbable that they are ignored.
"""

from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
_HASH_BYTES: Final = 16
_LEAST_SLOTS: Final = 16
_DEFAULT_LOAD_FACTOR: Final = 0.9
_UNUSED: Final = bytes(SLOT_BYTES - _HASH_BYTES)
UNKNOWN: Final = -1


class OffsetMap:
    """A hash map from keys to their newest offset, of at most `max_bytes`, filled up to `load_factor`.

    One slot always stays free, where a search ends. A load factor outside (0, 1] counts as the default.
    `expected` is an upper bound of the number of keys; the map is smaller than `max_bytes` if that is enough for them.
    """

    def __init__(self, max_bytes: int, load_factor: float, expected: int) -> None:
        load = load_factor if 0 < load_factor <= 1 else _DEFAULT_LOAD_FACTOR
        slots = max(int(min(max_bytes // SLOT_BYTES, expected / load + 1)), _LEAST_SLOTS)
        self._slots = slots
        self._limit = min(max(int(slots * load), 1), slots - 1)
        self._table = bytearray(slots * SLOT_BYTES)
        self._count = 0
        self.latest_offset = UNKNOWN
        """The last offset that has been read: its key is in the map, or it needs none."""

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """The memory of the table."""
        return len(self._table)

    def put(self, key: bytes, offset: int) -> bool:
        """Store the key's newest offset. Returns False, and stores nothing, when the map is full."""
        if self._count >= self._limit:
            return False
        digest, position, found = self._find(key)
        if not found:
            self._count += 1
        # Offsets are stored plus one, since 0 marks an unused slot.
        self._table[position : position + SLOT_BYTES] = digest + (offset + 1).to_bytes(8, "big")
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Returns the key's newest offset, -1 when the key is not in the map."""
        _, position, found = self._find(key)
        if not found:
            return UNKNOWN
        return int.from_bytes(self._table[position + _HASH_BYTES : position + SLOT_BYTES], "big") - 1

    def _find(self, key: bytes) -> tuple[bytes, int, bool]:
        """Returns the key's hash, the position of its slot (or a free slot), and whether the key is present."""
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
