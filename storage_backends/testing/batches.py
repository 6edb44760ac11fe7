"""Record batches for storage tests: valid headers and checksums around arbitrary bytes."""

from struct import Struct

from odradek.partitions.model import StoredBatch
from odradek.wire.records.batch import MAGIC_V2
from odradek.wire.records.crc import crc32c

_PREFIX = Struct(">qiibI")
_COVERED = Struct(">hiqqqhii")
_LENGTH_OF_REST = 9  # leader epoch, magic and CRC


def make_batch(
    base_offset: int,
    count: int = 1,
    *,
    max_timestamp_ms: int = -1,
    leader_epoch: int = 0,
    payload: bytes = b"payload",
) -> StoredBatch:
    """Return a batch of `count` offsets with `payload` as its records section."""
    covered = _COVERED.pack(0, count - 1, max_timestamp_ms, max_timestamp_ms, -1, -1, -1, count) + payload
    length = len(covered) + _LENGTH_OF_REST
    prefix = _PREFIX.pack(base_offset, length, leader_epoch, MAGIC_V2, crc32c(covered))
    return StoredBatch(base_offset, base_offset + count - 1, max_timestamp_ms, prefix + covered)
