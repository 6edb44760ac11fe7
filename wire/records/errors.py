"""Errors of record batches, one exception per condition.

The cause is the peer or, for batches that are read from it, the store. Each docstring names Kafka's error code for the
condition; which code a response has is decided by `partitions` (`validation`, `imports`) and, for stored batches, by
the gateway.
"""


class InvalidRecordBatch(Exception):  # noqa: N818 - errors are named by condition
    """The base: a record batch that cannot be accepted or read. Kafka: INVALID_RECORD (87)."""


class CorruptBatch(InvalidRecordBatch):
    """Lengths, counts or contents contradict each other. Kafka: CORRUPT_MESSAGE (2)."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends before the batch does. Kafka: CORRUPT_MESSAGE (2)."""


class CrcMismatch(CorruptBatch):
    """The checksum in the header is not that of the bytes. Kafka: CORRUPT_MESSAGE (2)."""

    def __init__(self, *, expected: int, actual: int) -> None:
        super().__init__(f"record batch checksum is {expected:#010x}, but its bytes have {actual:#010x}")
        self.expected = expected
        self.actual = actual


class UnsupportedMagic(InvalidRecordBatch):
    """The batch's message format is not v2. Kafka: INVALID_RECORD (87) for a Produce request."""

    def __init__(self, magic: int) -> None:
        super().__init__(_magic_text(magic))
        self.magic = magic


class UnsupportedCodec(InvalidRecordBatch):
    """The attributes name an unknown compression codec. Kafka: UNSUPPORTED_COMPRESSION_TYPE (76)."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"unknown compression codec {codec}; known are 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
        self.codec = codec


class RecordTooLarge(InvalidRecordBatch):
    """Records are, or decompress to, more bytes than allowed. Kafka: MESSAGE_TOO_LARGE (10)."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the records of the batch take more than the allowed {max_bytes} bytes")
        self.max_bytes = max_bytes


def _magic_text(magic: int) -> str:
    if magic in (0, 1):
        return (
            f"message format v{magic} (magic {magic}) is no longer supported: "
            "the client must be able to write format v2, which Kafka has had since 0.11"
        )
    return f"unknown message format (magic {magic}); only v2 is supported"
