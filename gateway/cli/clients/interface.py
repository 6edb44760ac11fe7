"""What `produce` and `consume` need of a Kafka client. Two adapters have it, and both pass the same tests."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.gateway.cli.client import TopicPartition
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.output import counted
from odradek.wire.errors import ErrorCode

MAX_UNACKNOWLEDGED_BYTES = 32 * 1024 * 1024
MAX_UNACKNOWLEDGED_RECORDS = 50_000
DELIVERY_TIMEOUT_MS = 120_000
LINGER_MS = 5


Headers = Sequence[tuple[str, bytes]]
OutgoingTuple = tuple[bytes | None, bytes | None, Headers, int | None]


class Outgoing(NamedTuple):
    """A record to send; a value of None is a tombstone, `timestamp_ms` of None means now.

    Where there are many, plain tuples of these fields do, for making one of these for each takes as long as sending it.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class SendSettings(NamedTuple):
    """How records are sent. `partition` of None leaves it to the key; `codec` is one of Kafka's, or "none"."""

    topic: str
    partition: int | None
    codec: str
    acks: str
    max_record_bytes: int


class Sender(Protocol):
    """Sends records of one topic in order, with a bounded number unacknowledged.

    The first record that fails ends everything: both methods raise `CliError` naming its line.
    """

    def send(self, line: int, records: Iterable[OutgoingTuple]) -> None:
        """Hand over records, the first of them from input line `line`; blocks while too much is unacknowledged."""
        ...

    def settle(self) -> int:
        """Wait until everything sent is acknowledged; the number of all records that were."""
        ...


class Access(NamedTuple):
    """Functions that read a field of a client's record; `timestamp` is in ms since the epoch."""

    topic: Callable[[Any], str]
    partition: Callable[[Any], int]
    offset: Callable[[Any], int]
    timestamp: Callable[[Any], int]
    key: Callable[[Any], bytes | None]
    value: Callable[[Any], bytes | None]
    headers: Callable[[Any], Sequence[tuple[str, bytes | None]]]


class ReadSettings(NamedTuple):
    """How records are read; `reset` is Kafka's auto.offset.reset, `group` of None joins no group."""

    group: str | None
    reset: str
    isolation: str


class Reader(Protocol):
    """Reads partitions of one topic, assigned here or by a group. Nothing is committed but by `commit`."""

    @property
    def access(self) -> Access:
        """How to read this client's records."""
        ...

    def partitions_of(self, topic: str) -> Collection[int]:
        """The indexes of a topic's partitions, empty where there is no such topic; never creates it."""
        ...

    def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each partition."""
        ...

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset after the last record that may be read of each partition."""
        ...

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """The first offset at or after a time; partitions without such a record are left out."""
        ...

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets."""
        ...

    def subscribe(self, topic: str, releasing: "Releasing") -> None:
        """Join the group. `releasing` is called inside `poll` and on closing when this member loses partitions.

        What it gives is committed before the partitions have another owner.
        """
        ...

    def is_settled(self) -> bool:
        """Whether the group has assigned its partitions."""
        ...

    def assignment(self) -> Collection[TopicPartition]:
        """The partitions that are being read."""
        ...

    def position(self, partition: TopicPartition, timeout_ms: int) -> int | None:
        """The offset after all that was polled and skipped; None while it is not known."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        ...

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """Records by partition in the order of their offsets; empty after `timeout_ms` without any."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the group's offsets; returns when the coordinator has stored them.

        Raises `CommitRefusedError` where the group has gone on without this member.
        """
        ...


class Releasing(Protocol):
    """What a group's reader asks for when partitions are taken from it; a client may call it from its own thread.

    The thread that polls or closes the reader waits meanwhile. No method may call the reader.
    """

    def revoked(self) -> Mapping[TopicPartition, int]:
        """The offsets to commit before the partitions are released."""
        ...

    def lost(self) -> None:
        """Membership is lost: nothing can be committed any more."""
        ...

    def committed(self, *, refused: bool) -> None:
        """The commit of what `revoked` gave has ended; `refused` where the group has gone on without this member."""
        ...


class CommitRefusedError(Exception):
    """The group rebalances or has removed this member: its offsets are those of the partitions' next owners."""


REFUSALS = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
                      ErrorCode.STALE_MEMBER_EPOCH})  # fmt: skip
"""Errors of OffsetCommit that end in `CommitRefusedError`."""


def require_partition(settings: SendSettings, existing: Collection[int]) -> None:
    """Raise `CliError` where all records are to go to a partition that the topic does not have."""
    if settings.partition is not None and existing and settings.partition not in existing:
        raise CliError(f"topic {settings.topic!r} has no partition {settings.partition}; it has {len(existing)}")


def send_failure(line: int, reason: str, acknowledged: int) -> CliError:
    """The error of a record that could not be sent."""
    return CliError(f"line {line}: {reason} (acknowledged before: {counted(acknowledged, 'record')})")
