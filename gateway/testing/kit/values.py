"""Values that tests see, and the errors that the kit raises."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypedDict, cast

Data: TypeAlias = bytes | str | None
"""A key or value: bytes, text that is encoded as UTF-8, or null."""

Headers: TypeAlias = Mapping[str, Data] | Iterable[tuple[str, Data]]
"""Headers of a record to produce: a mapping, or pairs if a name repeats."""

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
"""The `isolation.level` of a consumer: whether it gets records of transactions that are open or aborted."""


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to the tuple of both, and to the clients' types of this name that are tuples."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is stored. `timestamp_ms` are milliseconds since the epoch; names of headers may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class NewRecord(TypedDict, total=False):
    """A record for `produce_all`: the arguments of `produce`, of which each may be missing."""

    value: Data
    key: Data
    headers: Headers
    partition: int
    timestamp_ms: int


class CommittedOffset(int):
    """A committed offset: a number, with the text that the consumer has committed beside it in `metadata`."""

    metadata: str

    def __new__(cls, offset: int, metadata: str = "") -> "CommittedOffset":
        """An offset with its metadata."""
        made = super().__new__(cls, offset)
        made.metadata = metadata
        return made


def as_bytes(data: object) -> bytes | None:
    """Text is encoded as UTF-8. Raises TypeError for anything but bytes, text and None."""
    if isinstance(data, str):
        return data.encode()
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray):
        return bytes(data)
    raise TypeError(f"keys, values and headers are bytes, text or None, and {data!r} is a {type(data).__name__}")


def as_headers(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as a record has them. Raises TypeError as `as_bytes` does."""
    if headers is None:
        return ()
    pairs = cast("Mapping[str, Data]", headers).items() if isinstance(headers, Mapping) else headers
    return tuple([(name, as_bytes(value)) for name, value in pairs])
