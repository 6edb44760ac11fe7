"""The state of one partition that its leader and its followers have in common: offsets, epochs, producers.

    log start          last stable      high watermark       durable end       log end
        |-------------------|----------------|--------------------|---------------|
             read_committed      + read_uncommitted   durable here only    appended

- *log end*: the offset of the next record. It moves when a batch is appended.
- *durable end*: the end of what the store has made durable. It follows the log end, one commit at a time.
- *high watermark*: the end of what is committed, that is, durable on every in-sync replica. Only a role raises it: the
  leader to the smallest log end of the in-sync replicas (`leader.py`), a follower to its leader's (`follower.py`).

Every change takes effect here at once and is returned as a `LogWrite`. The caller commits the writes in the order in
which they were returned. After a failed commit the state is ahead of the store: discard it and `restore` it from the
store, as after a crash. A restored state has no role, and its high watermark is at the log start, because a record that
is durable here is not necessarily committed.

Invariants: log start <= last stable offset <= high watermark <= durable end <= log end. The high watermark moves back
only in a truncation.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from odradek.partitions.config import LogConfig, MessageTimestampType
from odradek.partitions.epochs import EpochHistory
from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite
from odradek.partitions.producers import ProducerEntry, Producers
from odradek.partitions.results import NO_LEADER_EPOCH, UNKNOWN_OFFSET, Rejected
from odradek.wire.errors import ErrorCode


class PartitionState:
    """The log of one partition without its records. Not safe for concurrent use: one task makes all changes, in order.

    Only the role (`Leader`, `Follower`) changes `log_end_offset`, `durable_end_offset`, `high_watermark` and
    `leader_epoch`. `truncations` counts those since the state was restored.
    """

    def __init__(self, config: LogConfig) -> None:
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_end_offset = 0
        self.high_watermark = 0
        self.leader_epoch = NO_LEADER_EPOCH
        self.clean_offset = 0
        self.truncations = 0
        self.epochs = EpochHistory()
        self.producer_states = Producers()
        self._aborted: list[AbortedTransaction] = []
        self.config = config
        self.stamps_append_time = self.verifies = False
        self.configure(config)

    @classmethod
    def restore(cls, snapshot: LogSnapshot, config: LogConfig) -> "PartitionState":
        """Restore a log from its store; all of it is durable, and the role determines how much of it is committed.

        No producer expires here, however old its timestamps: a retry of a batch whose acknowledgement was lost in a
        crash must find that batch, even if a backfill wrote it with yesterday's timestamps.

        Raises ProducerRowError when a producer's row cannot be read.
        """
        state = cls(config)
        state.log_start_offset = state.high_watermark = snapshot.log_start_offset
        state.log_end_offset = state.durable_end_offset = max(snapshot.log_end_offset, snapshot.log_start_offset)
        state.epochs = EpochHistory(snapshot.epochs)
        state.epochs.truncate_start(snapshot.log_start_offset)
        state.leader_epoch = state.epochs.latest
        state.producer_states = Producers.restore(snapshot.producers)
        state._take_aborted(snapshot.aborted)
        state.clean_offset = snapshot.clean_offset
        return state

    def _take_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        kept = (each for each in aborted if each.last_offset >= self.log_start_offset)
        self._aborted = sorted(kept, key=last_offset_of)

    def snapshot(self) -> LogSnapshot:
        """Returns what a store contains once every write is durable; `restore` of it gives an equal state.

        The largest timestamp is known to the store only, and -1 here.
        """
        return LogSnapshot(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            epochs=self.epochs.entries,
            producers=self.producer_states.rows(),
            aborted=tuple(self._aborted),
            clean_offset=self.clean_offset,
        )

    def await_first_batch_retry(self, lost: Mapping[int, ProducerEntry]) -> None:
        """Accept no other batch of a producer whose first batches were lost or refused, until it sends those again.

        `lost` are the producers' states in a log whose commit failed, or the states that the refused batches would have
        set.
        """
        self.producer_states.await_first_batch_retry(lost)

    def configure(self, config: LogConfig) -> None:
        """Apply other settings from the next append on."""
        self.config = config
        self.stamps_append_time = config.message_timestamp_type is MessageTimestampType.LOG_APPEND_TIME
        self.verifies = config.transaction_verification

    @property
    def last_stable_offset(self) -> int:
        """The end (exclusive) of the offsets whose transactions are all decided: read_committed's limit (KIP-98)."""
        unstable = self.producer_states.first_unstable_offset()
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def aborted(self) -> Sequence[AbortedTransaction]:
        """The aborted transactions that Fetch reports to readers, by last offset."""
        return tuple(self._aborted)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producer states by producer id, for DescribeProducers; a live view."""
        return self.producer_states.entries

    def begin_epoch(self, epoch: int) -> EpochStart | None:
        """Continue in `epoch`, which begins at the log end; returns None when the history has it already.

        `epoch` must not be below the current one (asserted).
        """
        self.enter_epoch(epoch)
        return self.epochs.assign(epoch, self.log_end_offset)

    def enter_epoch(self, epoch: int) -> None:
        """Continue in `epoch`, whose start is determined by another replica."""
        assert epoch >= self.leader_epoch, f"epoch {epoch} after {self.leader_epoch}"
        self.leader_epoch = epoch

    def check_epoch(self, current_leader_epoch: int) -> Rejected | None:
        """Compare the epoch of a request with the partition's (KIP-320); a negative one is not checked.

        FENCED_LEADER_EPOCH for an older one, UNKNOWN_LEADER_EPOCH for a newer one.
        """
        if current_leader_epoch == self.leader_epoch or current_leader_epoch < 0:
            return None
        older = current_leader_epoch < self.leader_epoch
        error = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return Rejected(error, f"the request is for epoch {current_leader_epoch}, this is epoch {self.leader_epoch}")

    def note_aborted(self, aborted: AbortedTransaction | None) -> tuple[AbortedTransaction, ...]:
        """Record an aborted transaction for readers; returns the entries to store with the write."""
        if aborted is None:
            return ()
        self._aborted.append(aborted)
        return (aborted,)

    def mark_durable(self, end_offset: int) -> None:
        """The store has made everything below `end_offset` durable."""
        assert end_offset <= self.log_end_offset, f"{end_offset} was never assigned"
        self.durable_end_offset = max(self.durable_end_offset, end_offset)

    def raise_high_watermark(self, offset: int) -> bool:
        """Everything below `offset` is committed; the part that is durable here becomes readable. Returns True if it
        moved.

        An offset below the high watermark changes nothing.
        """
        offset = min(offset, self.durable_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_states.on_high_watermark(offset)
        return True

    def move_log_start(self, offset: int) -> LogWrite | Rejected:
        """Delete everything below `offset` (DeleteRecords, retention); -1 means the high watermark.

        The write is empty when the log already starts at or after `offset`. OFFSET_OUT_OF_RANGE above the high
        watermark.
        """
        offset = self.high_watermark if offset == UNKNOWN_OFFSET else offset
        if not 0 <= offset <= self.high_watermark:
            return self.out_of_range(offset)
        if offset <= self.log_start_offset:
            return LogWrite()
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        del self._aborted[: bisect_left(self._aborted, offset, key=last_offset_of)]
        return LogWrite(log_start_offset=offset)

    def out_of_range(self, offset: int) -> Rejected:
        """Returns the refusal of an offset outside the log."""
        message = f"offset {offset} is not within {self.log_start_offset} to {self.log_end_offset}"
        return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)

    def compacted(self, clean_offset: int) -> LogWrite:
        """Everything below `clean_offset` is compacted. Returns the write that stores this."""
        self.clean_offset = clean_offset
        return LogWrite(clean_offset=clean_offset)

    def keep_aborted(self, base_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """Of the aborted transactions that end in the range keep only `kept`, as the store does when it compacts.

        Call it before the markers of the others are removed: a consumer that gets an aborted transaction whose marker
        is gone would treat the producer's next transaction as aborted, too.
        """
        others = [each for each in self._aborted if not base_offset <= each.last_offset < end_offset]
        self._aborted = sorted([*others, *kept], key=last_offset_of)

    def aborted_in(self, fetch_offset: int, upper_offset: int) -> tuple[AbortedTransaction, ...]:
        """Returns the aborted transactions that overlap [fetch_offset, upper_offset), in the order of their markers."""
        return tuple(self._overlapping(fetch_offset, upper_offset))

    def has_aborted_in(self, fetch_offset: int, upper_offset: int) -> bool:
        """True if `aborted_in` returns any; it is found at the first, while the range may have all that are known."""
        return next(self._overlapping(fetch_offset, upper_offset), None) is not None

    def _overlapping(self, fetch_offset: int, upper_offset: int) -> Iterator[AbortedTransaction]:
        for at in range(bisect_left(self._aborted, fetch_offset, key=last_offset_of), len(self._aborted)):
            aborted = self._aborted[at]
            if aborted.first_offset < upper_offset:
                yield aborted
            if aborted.last_stable_offset >= upper_offset:
                return  # transactions that end later begin at or above that offset

    def expire_producers(self, now_ms: int) -> LogWrite | None:
        """Remove producers idle for `producer.id.expiration.ms`; returns None when there are none."""
        expired = self.producer_states.expire(now_ms, self.config.producer_id_expiration_ms)
        return LogWrite(producers=dict.fromkeys(expired)) if expired else None

    def truncated(self, left: LogSnapshot) -> None:
        """The store has truncated the log (`PartitionStore.truncate`), or restarted it empty, and now contains `left`.

        Raises ProducerRowError.
        """
        end_offset = left.log_end_offset
        self.truncations += 1
        self.log_start_offset = left.log_start_offset
        self.log_end_offset = end_offset
        self.durable_end_offset = end_offset
        self.high_watermark = max(min(self.high_watermark, end_offset), left.log_start_offset)
        self.epochs = EpochHistory(left.epochs)
        self.epochs.truncate_start(left.log_start_offset)
        self.producer_states = self.producer_states.truncated(left.producers, end_offset)
        self._take_aborted(left.aborted)
        self.clean_offset = left.clean_offset


def last_offset_of(aborted: AbortedTransaction) -> int:
    """Returns the offset of the transaction's marker."""
    return aborted.last_offset
