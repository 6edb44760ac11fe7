"""The contract of every coordinator: a pure shard that decides records and replies, and changes state only in replay.

The contract (after Kafka's coordinator runtime, KIP-848 and the `coordinator-common` module):

- An operation reads the state and returns an `Outcome`: records to write and replies to send. It may keep *soft* state,
  which a restart may lose (held requests, timers), but never changes the state that records describe.
- The runtime immediately replays the outcome's records into the shard, so that the next operation sees them. It appends
  them to the log; records of several operations may be written in one transaction. It sends the replies only when the
  records are committed, that is, when every in-sync replica has them on disk. Replies of reads also wait, because they
  may depend on records that are not committed yet.
- A frequent request that writes nothing (Heartbeat) returns its reply directly, which waits in the same way.
- When a write fails, the shard is discarded, every waiting caller gets an error, and a new shard is built by replaying
  the log. So the state always equals that of a replay.
- Time is passed in as `now_ms`; `next_deadline_ms` returns when `on_time` is due.
"""

from collections.abc import Sequence
from typing import NamedTuple, NewType, Protocol

from odradek.wire.records.batch import NO_PRODUCER_ID
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.values import immutable

Token = NewType("Token", int)
"""Identifies a waiting request. The runtime creates it and passes it to an operation; the reply contains it."""


class Producer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int


@immutable
class ShardRecord:
    """One record of a shard's log: Kafka's own key and value bytes. A None value is a tombstone.

    With a producer id it belongs to that producer's open transaction, and takes effect once `replay_end` reports the
    commit. `decoded` is the object that an operation has just encoded as `value`, so that replay need not decode it
    again; a record that was read from the log has none. Replay must have the same effect with and without it.
    """

    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID
    decoded: object = None


@immutable
class Reply:
    """The response to the request of `token`; sent once the records of this and all earlier outcomes are committed."""

    token: Token
    value: object


@immutable
class Outcome:
    """The decision of an operation. A request that gets no reply here gets it from a later operation.

    With a `producer` all records are written in that producer's transaction. `batch` is the result of `encode_batch`
    for the records, if it was called already. `timeout_ms` is how long the replies wait for the commit of the records
    that they depend on, None for the runtime's own limit. `about` is the group or the transactional id that is decided
    about, for `on_refused`; empty if the decision changes nothing but what its records describe.
    """

    records: Sequence[ShardRecord] = ()
    replies: Sequence[Reply] = ()
    producer: Producer | None = None
    batch: bytes | None = None
    timeout_ms: int | None = None
    about: str = ""


def encode_batch(records: Sequence[ShardRecord], producer: Producer | None, now_ms: int) -> bytes:
    """Encode the records as one batch of the log, in the producer's transaction if there is one."""
    simple = [SimpleRecord(record.key or None, record.value, now_ms) for record in records]
    if producer is None:
        return build_batch(simple)
    producer_id, producer_epoch = producer
    return build_batch(
        simple, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=0, transactional=True
    )


class Shard(Protocol):
    """The part of a coordinator that the runtime calls; each concrete shard adds its operations as further methods."""

    def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
        """Apply the record at `offset` of the log, written by the partition's leader of `epoch`.

        Durable state changes only here. Offsets grow, and may have gaps. Records of older versions are accepted too.

        Raises:
            odradek.wire.errors.ProtocolError: the record cannot be decoded.
        """
        ...

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """The producer's transaction ends here: its records take effect if `committed`, otherwise never."""
        ...

    def on_loaded(self, now_ms: int) -> Outcome:
        """Called once after replay, before the first operation: start timers, finish what was in progress."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Returns when `on_time` should be called next (same clock as `now_ms`), None when nothing is scheduled."""
        ...

    def on_time(self, now_ms: int) -> Sequence[Outcome]:
        """Handle everything that is due: session and rebalance time-outs, expiry.

        Each outcome is independent of the others, so that one that is too large to be written does not affect them, and
        none is in a producer's transaction.
        """
        ...

    def on_refused(self, about: str, now_ms: int) -> None:
        """Called when an outcome about `about` is too large to be written: undo what it changed in the soft state.

        Timers that led to it are set again, for a later time.
        """
        ...

    def forget(self, token: Token) -> None:
        """Called when the request of `token` no longer waits, as after a disconnect; a later reply to it is dropped."""
        ...
