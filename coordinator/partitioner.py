"""Computes the partition of `__consumer_offsets` that owns a group, or of `__transaction_state` a transactional id."""

from functools import lru_cache

_HASH_MODULUS = 1 << 32
_SIGN_BIT = 1 << 31


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    hashed = 0
    for index in range(0, len(units), 2):
        hashed = (31 * hashed + (units[index] << 8 | units[index + 1])) % _HASH_MODULUS
    return hashed - _HASH_MODULUS if hashed & _SIGN_BIT else hashed


# Called for every request of every group: ten thousand names are about a megabyte.
@lru_cache(maxsize=10_000)
def partition_for(group_id: str, count: int) -> int:
    """Returns the partition, out of `count`, that coordinates `group_id`, which may also be a transactional id.

    Every broker and client tool computes the same. Kafka takes the absolute value of the hash, or 0 for the smallest
    integer, which has no absolute value in Java.
    """
    hashed = java_string_hash(group_id)
    return (0 if hashed == -_SIGN_BIT else abs(hashed)) % count
