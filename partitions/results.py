"""What a partition's log is asked with and answers: plain values, one per kind of answer.

A refusal is a value as well (`Rejected`), since it is the peer's doing and as ordinary as success.
"""

from enum import Enum, IntEnum
from typing import Final, NamedTuple

from odradek.partitions.model import AbortedTransaction, LogWrite
from odradek.wire.errors import ErrorCode

NO_LEADER_EPOCH: Final = -1
"""No epoch is known; in a request, no check is wanted (KIP-320)."""

UNKNOWN_OFFSET: Final = -1


class AppendOrigin(Enum):
    """Where records come from, and so how far they are trusted."""

    CLIENT = "client"
    """A Produce request: checked in full."""

    COORDINATOR = "coordinator"
    """The broker's own records, transaction markers among them: epochs are checked, contents are trusted."""


class Isolation(IntEnum):
    """How far a reader may see; the first two are the protocol's isolation levels (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2
    """A replica's view: everything that the leader holds durably."""


class Rejected(NamedTuple):
    """A refusal, for the peer. Nothing changed.

    `record_errors` holds (index in the batch, message) when single records are to blame (KIP-467); Kafka sends
    `message` with a Produce response only then.
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
    """An idempotent producer's retry of a batch that the log has. It may not be durable yet: the caller waits until the
    high watermark is past `last_offset`. `log_append_time_ms` is the batch's max timestamp, as in Kafka.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int


class EpochEnd(NamedTuple):
    """Where a leader epoch ended: the answer to OffsetForLeaderEpoch (KIP-101, KIP-320), (-1, -1) when unknown."""

    leader_epoch: int
    end_offset: int


class FetchPlan(NamedTuple):
    """What a fetch may read: whole batches from the one that holds `start`, all below `end` (exclusive).

    Nothing is readable when `start >= end`. `aborted` is None under read_uncommitted; under read_committed it covers
    [start, end), and `Reads.aborted_in` narrows it to what was really read. With `diverging` set nothing may be
    read: the reader has to truncate first (KIP-595).
    """

    start: int
    end: int
    max_bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] | None = None
    diverging: EpochEnd | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be read yet."""
        return self.start >= self.end


class OffsetFound(NamedTuple):
    """The answer to ListOffsets; -1 stands for "none" in each field."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


OFFSET_NOT_FOUND: Final = OffsetFound(UNKNOWN_OFFSET, -1, NO_LEADER_EPOCH)
"""No record is that young: Kafka answers -1 in all fields, without an error."""


class NeedsScan(NamedTuple):
    """ListOffsets needs the store: find a batch, then let `offsets.offset_in_batches` find the record in it.

    The batch is that of `find_max_timestamp` with `of_max_timestamp`, else that of `find_by_timestamp(timestamp_ms)`.
    Records below `start_offset` are skipped, and a record at or above `limit_offset` counts as not found. `refusal` is
    the answer if no record is found.
    """

    timestamp_ms: int
    of_max_timestamp: bool
    start_offset: int
    limit_offset: int
    refusal: Rejected | None = None

    @property
    def absent(self) -> OffsetFound | Rejected:
        """The answer when no record fits: "none", unless a new leader cannot know yet."""
        return self.refusal or OFFSET_NOT_FOUND
