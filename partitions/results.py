"""The arguments and results of operations on a partition's log, as plain values.

A refusal is a value too (`Rejected`), not an exception: the peer causes it, and it is a normal outcome.
"""

from enum import Enum, IntEnum
from typing import Final, NamedTuple

from odradek.partitions.model import LogWrite
from odradek.wire.errors import ErrorCode

NO_LEADER_EPOCH: Final = -1
"""No epoch is known; in a request: do not check the epoch (KIP-320)."""

UNKNOWN_OFFSET: Final = -1


class AppendOrigin(Enum):
    """The origin of records, which determines what is checked."""

    CLIENT = "client"
    """A Produce request: checked in full."""

    COORDINATOR = "coordinator"
    """The broker's own records, including transaction markers: epochs are checked, contents are trusted."""


class Isolation(IntEnum):
    """The limit up to which a reader may read; the first two are the protocol's isolation levels (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2
    """A replica's fetch: everything that is durable on the leader."""


class Rejected(NamedTuple):
    """A refusal, returned to the peer. The state has not changed.

    `record_errors` holds (index in the batch, message) if single records are the cause (KIP-467); Kafka sends `message`
    in a Produce response only then.
    """

    error: ErrorCode
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


class Appended(NamedTuple):
    """The batch has its offsets; it is stored once `write` is durable, and visible once the high watermark passes it.

    `log_append_time_ms` is -1 when the records keep the producer's timestamps.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    write: LogWrite


class Duplicate(NamedTuple):
    """An idempotent producer's retry of a batch that is in the log.

    The original may not be durable yet: the caller waits as for a new batch, until the durable end or, with acks=all,
    the high watermark is past `last_offset`. `log_append_time_ms` is the batch's max timestamp, as in Kafka.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int


class EpochEnd(NamedTuple):
    """The end of a leader epoch, as OffsetForLeaderEpoch returns it (KIP-101, KIP-320); (-1, -1) when unknown."""

    leader_epoch: int
    end_offset: int


class FetchPlan(NamedTuple):
    """The range that a fetch may read: whole batches from the one with `start`, all below `end` (exclusive).

    Nothing is readable when `start >= end`. `aborted` is None under read_uncommitted; under read_committed it is True
    if aborted transactions overlap [start, end), and `Reads.aborted_in` returns those of the range that was read. With
    `diverging` set nothing may be read: the reader must truncate first (KIP-595).
    """

    start: int
    end: int
    max_bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: bool | None = None
    diverging: EpochEnd | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing can be read yet."""
        return self.start >= self.end


class OffsetFound(NamedTuple):
    """The result of ListOffsets; -1 means "none" in each field."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


OFFSET_NOT_FOUND: Final = OffsetFound(UNKNOWN_OFFSET, -1, NO_LEADER_EPOCH)
"""No record is that recent: Kafka returns -1 in all fields, without an error."""


class NeedsScan(NamedTuple):
    """ListOffsets needs the store: find a batch there, then the record in it with `offsets.offset_in_batches`.

    The batch is that of `find_max_timestamp` with `of_max_timestamp`, else that of `find_by_timestamp(timestamp_ms)`.
    Records below `start_offset` are skipped, and a record at or above `limit_offset` counts as not found. `refusal` is
    returned if no record is found.
    """

    timestamp_ms: int
    of_max_timestamp: bool
    start_offset: int
    limit_offset: int
    refusal: Rejected | None = None

    @property
    def absent(self) -> OffsetFound | Rejected:
        """The result when no record matches: "none", unless the leader is too new to decide (`refusal`)."""
        return self.refusal or OFFSET_NOT_FOUND
