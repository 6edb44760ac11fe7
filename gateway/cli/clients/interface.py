"""The interface of a Kafka client for `produce` and `consume`. Its two implementations pass the same tests."""

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
    """A record to send. A `value` of None is a tombstone; with a `timestamp_ms` of None it gets the time of sending.

    For many records, use plain tuples of these fields: creating an `Outgoing` takes as long as sending it.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class SendSettings(NamedTuple):
    """How records are sent. With a `partition` of None the key selects it; `codec` is one of Kafka's, or "none"."""

    topic: str
    partition: int | None
    codec: str
    acks: str
    max_record_bytes: int


class Sender(Protocol):
    """Sends records of one topic in order, with a bounded number unacknowledged.

    Once a record has failed, `send` or `settle` raises `CliError` naming its line. Records that were already queued may
    still be sent.
    """

    def send(self, line: int, records: Iterable[OutgoingTuple]) -> None:
        """Send records, the first of them from input line `line`; blocks while too much is unacknowledged."""
        ...

    def settle(self) -> int:
        """Wait until everything sent is acknowledged; returns the number of all acknowledged records."""
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
    """Reads partitions of one topic, assigned by `assign` or a group. Only `commit` and `Releasing` commit offsets."""

    @property
    def access(self) -> Access:
        """The functions that read this client's records."""
        ...

    def partitions_of(self, topic: str) -> Collection[int]:
        """The indexes of a topic's partitions; empty if it does not exist. Never creates the topic."""
        ...

    def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first offset of each partition."""
        ...

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offset after the last record of each partition that can be read at the isolation level."""
        ...

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """The offset of the first record at or after a time; partitions without such a record are left out."""
        ...

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets."""
        ...

    def subscribe(self, topic: str, releasing: "Releasing") -> None:
        """Join the group. `releasing` is called in `poll` and on closing when partitions of this member are revoked.

        The offsets that it returns are committed before the partitions get another owner.
        """
        ...

    def is_settled(self) -> bool:
        """True if the group has assigned its partitions."""
        ...

    def assignment(self) -> Collection[TopicPartition]:
        """The partitions that are being read."""
        ...

    def position(self, partition: TopicPartition, timeout_ms: int) -> int | None:
        """The offset after everything that was polled or skipped; None while it is not known."""
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        ...

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """Records by partition in the order of their offsets; empty after `timeout_ms` without any."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the group's offsets; returns when the coordinator has stored them.

        Raises `CommitRefusedError` if the group has rebalanced or removed this member.
        """
        ...


class Releasing(Protocol):
    """Callbacks of `Reader.subscribe` for revoked partitions; a client may call them from its own thread.

    The thread that polls or closes the reader waits meanwhile. The methods must not call the reader.
    """

    def revoked(self) -> Mapping[TopicPartition, int]:
        """Returns the offsets to commit before the partitions are released."""
        ...

    def lost(self) -> None:
        """Called when this member was removed from the group: nothing can be committed any more."""
        ...

    def committed(self, *, refused: bool) -> None:
        """Called after the commit of the offsets from `revoked`; `refused` is True if the coordinator refused it."""
        ...


class CommitRefusedError(Exception):
    """The group rebalances or has removed this member: the next owners of the partitions commit their offsets."""


REFUSALS = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
                      ErrorCode.STALE_MEMBER_EPOCH})  # fmt: skip
"""Errors of OffsetCommit for which `CommitRefusedError` is raised."""


def require_partition(settings: SendSettings, existing: Collection[int]) -> None:
    """Raise `CliError` if the topic does not have the partition that `settings` selects for all records."""
    if settings.partition is not None and existing and settings.partition not in existing:
        raise CliError(f"topic {settings.topic!r} has no partition {settings.partition}; it has {len(existing)}")


def send_failure(line: int, reason: str, acknowledged: int) -> CliError:
    """The error for a record that could not be sent."""
    return CliError(f"line {line}: {reason} (acknowledged before: {counted(acknowledged, 'record')})")
