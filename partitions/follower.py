"""A partition's follower: appends the leader's batches unchanged, and truncates records that the leader does not have.

The leader has validated the batches, so only their checksums and offsets are checked here. The high watermark is the
leader's, limited to what is durable here. Truncation uses epochs (`truncation.py`), never a high watermark: committed
records may be above the follower's own high watermark (KIP-101).
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.partitions.model import AbortedTransaction, EpochStart, LogSnapshot, LogWrite, StoredBatch
from odradek.partitions.reads import Reads
from odradek.partitions.results import Appended, EpochEnd, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import TruncationPoint, truncation_point
from odradek.partitions.validation import read_replicated_batches
from odradek.wire.records.batch import batch_bytes, iter_headers


class FetchPosition(NamedTuple):
    """The position of a follower's next fetch: the offset after its last record, that record's epoch, its log start.

    A response can be used only if the follower is still at the position of the request, in the same epoch.
    """

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Restart(NamedTuple):
    """How an empty log restarts with a batch that begins below it: truncated to `base_offset`, then with `writes`."""

    base_offset: int
    writes: Sequence[LogWrite]


class Follower(Reads):
    """The follower role over a state. Created by `follow`."""

    leads = False

    def __init__(self, state: PartitionState, leader_id: int) -> None:
        super().__init__(state)
        self.leader_id = leader_id
        self._leader_high_watermark = 0
        self._leader_log_start = 0

    @property
    def position(self) -> FetchPosition:
        """The next fetch position. Everything below its offset must be durable, since the fetch acknowledges it."""
        state = self.state
        return FetchPosition(state.leader_epoch, state.log_end_offset, state.epochs.latest, state.log_start_offset)

    @property
    def may_fetch(self) -> bool:
        """True if everything below `position` is durable.

        After a change of roles or of the leader this may be False: commits of earlier appends may still be in flight.
        """
        return self.state.durable_end_offset == self.state.log_end_offset

    def append(self, records: memoryview) -> Appended | Rejected:
        """Append the leader's batches with their offsets and epochs, all or none; gaps between them are allowed."""
        state = self.state
        batches = read_replicated_batches(records, state.log_end_offset, state.leader_epoch)
        if isinstance(batches, Rejected):
            return batches
        first_offset = batches[0][0].base_offset if batches else state.log_end_offset
        stored: list[StoredBatch] = []
        producers: dict[int, bytes | None] = {}
        epochs: list[EpochStart] = []
        aborted: list[AbortedTransaction] = []
        for header, marker in batches:
            base_offset, last_offset = header.base_offset, header.last_offset
            state.log_end_offset = last_offset + 1
            stored.append(StoredBatch(base_offset, last_offset, header.max_timestamp, batch_bytes(records, header)))
            started = state.epochs.assign(header.partition_leader_epoch, base_offset)
            epochs.extend(() if started is None else (started,))
            if marker is not None:
                row, ended = state.producer_states.end_replicated(header, base_offset, marker)
                producers |= row
                aborted.extend(state.note_aborted(ended))
            elif header.producer_id >= 0 and not header.is_control:
                producers |= state.producer_states.add_replicated(header, base_offset)
        write = LogWrite(stored, epochs, producers, aborted, replicated=True)
        return Appended(first_offset, state.log_end_offset - 1, -1, write)

    def durable(self, end_offset: int) -> bool:
        """The store has made everything below `end_offset` durable. Returns True if the high watermark moved."""
        self.state.mark_durable(end_offset)
        return self.state.raise_high_watermark(self._leader_high_watermark)

    def leader_commits(self, high_watermark: int) -> bool:
        """Apply the leader's high watermark from a Fetch response. Returns True if the one here moved."""
        self._leader_high_watermark = high_watermark
        return self.state.raise_high_watermark(high_watermark)

    def leader_starts(self, log_start_offset: int) -> LogWrite | None:
        """Apply the leader's log start offset, but at most up to the high watermark here.

        Returns the write that makes it durable, None if the log start did not move.
        """
        self._leader_log_start = max(self._leader_log_start, log_start_offset)
        offset = min(self._leader_log_start, self.state.high_watermark)
        write = self.state.move_log_start(offset)
        return write if isinstance(write, LogWrite) and write.log_start_offset is not None else None

    def reset_offset(self, leader_log_start: int) -> int | None:
        """After OFFSET_OUT_OF_RANGE: returns the offset at which the log must restart if the leader has deleted all of
        it.

        None if the next fetch continues from the log end: records that the leader does not have are truncated by
        epochs. A log that is not empty restarts also at its end: it may have records of a lost leadership where the
        leader has deleted others, and end inside the batch that the leader's log begins in.
        """
        state = self.state
        is_behind = leader_log_start > state.log_end_offset
        is_deleted = leader_log_start == state.log_end_offset > state.log_start_offset
        return leader_log_start if is_behind or is_deleted else None

    def restart_with(self, records: memoryview) -> Restart | None:
        """After `append` has refused `records` with OFFSET_OUT_OF_RANGE: returns how the log must restart with them.

        None unless the log is empty and the first batch contains its end. The leader's log starts inside that batch
        (DeleteRecords), and a follower that begins there gets all of it. The log start stays where it is. As in Kafka,
        except that Kafka's log start moves back to the beginning of the batch until the leader's is adopted.
        """
        state = self.state
        end_offset = state.log_end_offset
        first = next(iter_headers(records, allow_partial_tail=True))
        if state.log_start_offset < end_offset or not first.base_offset < end_offset <= first.last_offset:
            return None
        empty = PartitionState.restore(LogSnapshot(first.base_offset, first.base_offset), state.config)
        appended = follow(empty, state.leader_epoch, self.leader_id).append(records)
        if isinstance(appended, Rejected):
            return None
        return Restart(first.base_offset, (appended.write, LogWrite(log_start_offset=end_offset)))

    def truncation(self, diverging: EpochEnd) -> TruncationPoint:
        """Returns where to truncate, given the leader's largest epoch and its end offset; see `truncation.py`.

        The caller truncates the store there and passes what remains to `PartitionState.truncated`.
        """
        return truncation_point(self.state.epochs, self.state.log_end_offset, diverging)


def follow(state: PartitionState, epoch: int, leader_id: int) -> Follower:
    """Follow `leader_id` in `epoch`, which must not be below the known epoch (asserted)."""
    state.enter_epoch(epoch)
    return Follower(state, leader_id)
