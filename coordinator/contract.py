"""The contract of every coordinator: a pure shard that decides records and replies, and changes state only in replay.

The contract (after Kafka's coordinator runtime, KIP-848 and the `coordinator-common` module):

- An operation looks at the state and returns an `Outcome`: records to write and replies to release. It may keep *soft*
  state, which a restart may lose (held requests, timers), but never changes what records describe.
- The runtime replays the outcome's records into the shard at once, so that the next operation sees them, appends all
  records decided meanwhile in one transaction, and releases the replies only when that transaction is durable. Replies
  of reads go the same way, for they may rest on records that are not durable yet.
- A question that is asked often and writes nothing (Heartbeat) returns its answer itself, which waits likewise.
- When an append fails, the shard is discarded, every waiting caller is answered with an error, and a new shard is built
  by replaying the log. So state equals replay, always.
- Time enters as `now_ms`; `next_deadline_ms` says when `on_time` is due.
"""

from collections.abc import Sequence
from typing import NamedTuple, NewType, Protocol

from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.values import immutable

Token = NewType("Token", int)
"""Identifies one waiting request. The runtime makes it and passes it to an operation; a reply carries it back."""


class Producer(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    producer_epoch: int


@immutable
class ShardRecord:
    """One record of a shard's log: Kafka's own key and value bytes. A None value is a tombstone.

    With a producer id it belongs to that producer's open transaction, and counts once `replay_end` says that it is
    committed. `decoded` is what an operation has just encoded as `value`, for a shard whose replay would decode it
    again; a record that was read from the log has none. Replay of either must have the same effect.
    """

    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID
    decoded: object = None


@immutable
class Reply:
    """The answer to the request of `token`; sent once the outcome's records are durable."""

    token: Token
    value: object


@immutable
class Outcome:
    """What an operation decided. An operation that leaves its own token unanswered will answer it in a later one.

    With a `producer` all its records are written in that producer's transaction. `batch` is what `encode_batch` makes
    of them, if it was called already. `timeout_ms` is how long the replies wait for the commit of what they rest on,
    None for the runtime's own limit.
    """

    records: Sequence[ShardRecord] = ()
    replies: Sequence[Reply] = ()
    producer: Producer | None = None
    batch: bytes | None = None
    timeout_ms: int | None = None


def encode_batch(records: Sequence[ShardRecord], producer: Producer | None, now_ms: int) -> bytes:
    """The records as one batch of the log, in the producer's transaction if there is one."""
    simple = [SimpleRecord(record.key or None, record.value, now_ms) for record in records]
    if producer is None:
        return build_batch(simple)
    producer_id, producer_epoch = producer
    return build_batch(
        simple, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=True
    )


class Shard(Protocol):
    """The part of a coordinator that the runtime itself calls; operations are further methods of the concrete shard."""

    def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
        """Apply the record that stands at `offset` of the log, written by the partition's leader of `epoch`.

        The only place where durable state changes. Offsets grow, and may have gaps. Raises nothing for old records.
        """
        ...

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """The producer's transaction has ended here: its records count from now on, or never."""
        ...

    def on_loaded(self, now_ms: int) -> Outcome:
        """Called once after replay of the log, before the first operation: start timers, finish what was under way."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When `on_time` should be called next (same clock as `now_ms`), None when nothing is due ever."""
        ...

    def on_time(self, now_ms: int) -> Outcome:
        """Handle everything that is due: session and rebalance time-outs, expiry."""
        ...

    def forget(self, token: Token) -> None:
        """The client of `token` has disconnected; a reply for it may still be returned and is then dropped."""
        ...
