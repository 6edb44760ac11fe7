"""Estimates over all records in fixed memory: the most frequent keys, and the number of repeated records."""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final

MOST_KEYS: Final = 20_000
MOST_HASHES: Final = 1_000_000
SHOWN: Final = 10
_POSITIVE: Final = 0x7FFFFFFF


class TopKeys:
    """The most frequent keys. Counts are exact for up to `most` distinct keys, else possibly too low (Misra-Gries)."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._counts: Counter[bytes] = Counter()
        self._most = most
        self.without_key = 0
        self.is_exact = True

    def add(self, key: bytes | None) -> None:
        """Count a record."""
        if key is None:
            self.without_key += 1
            return
        self._counts[key] += 1
        if len(self._counts) > self._most:
            self.is_exact = False
            self._counts = Counter({each: count - 1 for each, count in self._counts.items() if count > 1})

    def top(self) -> list[tuple[bytes, int]]:
        """Return the most frequent keys, in descending order."""
        return self._counts.most_common(SHOWN)


class Placement:
    """The partition of a key by the default partitioner of Kafka's producers: murmur2, modulo the partitions."""

    def __init__(self, partitions: int) -> None:
        from aiokafka.partitioner import murmur2  # pyright: ignore[reportUnknownVariableType]

        @lru_cache(MOST_KEYS)
        def partition_of(key: bytes) -> int:
            return (murmur2(key) & _POSITIVE) % partitions

        self.partition_of = partition_of


class Likeness:
    """Estimates how many records have the same key, value and time as an earlier one.

    It keeps the hashes of a sample of all contents, chosen by the hash, so that of equal contents all or none are
    included. The sampling rate is halved when there are too many. The estimate is exact for up to `most` different
    records.
    """

    def __init__(self, most: int = MOST_HASHES) -> None:
        self._most = most
        self._mask = 0
        self._seen: Counter[int] = Counter()

    def add(self, key: bytes | None, value: bytes | None, time_us: int) -> None:
        """Add a record."""
        digest = blake2b(digest_size=8)
        for part in (key, value):
            digest.update(b"\0" if part is None else len(part).to_bytes(5, "big") + part)
        digest.update(time_us.to_bytes(9, "big", signed=True))
        number = int.from_bytes(digest.digest(), "big")
        if number & self._mask:
            return
        self._seen[number] += 1
        if len(self._seen) > self._most:
            self._mask = self._mask * 2 + 1
            self._seen = Counter({each: count for each, count in self._seen.items() if not each & self._mask})

    @property
    def alike(self) -> int:
        """Return the number of records equal to an earlier one, an estimate unless `is_exact`."""
        return sum(count - 1 for count in self._seen.values()) * (self._mask + 1)

    @property
    def is_exact(self) -> bool:
        """True if the hashes of all records are kept."""
        return self._mask == 0


@dataclass(slots=True)
class Samples:
    """The samples of all partitions together."""

    keys: TopKeys = field(default_factory=TopKeys)
    likeness: Likeness = field(default_factory=Likeness)
