"""The partition of a key as Kafka's producers choose it: murmur2 of the key, modulo the number of partitions."""

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_SHIFT: Final = 24
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of `key` in a topic with that many partitions."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of `data` with Kafka's seed, as an unsigned number."""
    size = len(data)
    found = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _WORD
        word = (word ^ word >> _SHIFT) * _FACTOR & _WORD
        found = (found * _FACTOR & _WORD) ^ word
    if size > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _WORD
    found = (found ^ found >> 13) * _FACTOR & _WORD
    return found ^ found >> 15
