"""A partition's follower: takes the leader's batches as they are, and cuts off what the leader never had.

What a batch says was judged by the leader, so only its checksum and its offsets are checked here. The high watermark is
the leader's, as far as the records below it are durable here. Truncation goes by epochs (`truncation.py`), never by a
high watermark: a record below the leader's may be above this one (KIP-101).
"""

from typing import NamedTuple

from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite, StoredBatch
from odradek.partitions.reads import Reads
from odradek.partitions.results import Appended, EpochEnd, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import TruncationPoint, truncation_point
from odradek.partitions.validation import read_replicated_batches
from odradek.wire.records.batch import batch_bytes


class FetchPosition(NamedTuple):
    """Where a follower fetches on: the offset after its last record, that record's epoch, its log start.

    An answer is of use only to a follower that still stands at the position that was asked from, in the same epoch.
    """

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Follower(Reads):
    """The following role over a state. Made by `follow`."""

    leads = False

    def __init__(self, state: PartitionState, leader_id: int) -> None:
        super().__init__(state)
        self.leader_id = leader_id
        self._leader_high_watermark = 0
        self._leader_log_start = 0

    @property
    def position(self) -> FetchPosition:
        """Where to fetch on. The offset acknowledges what is below, so all of it has to be durable before the fetch."""
        state = self.state
        return FetchPosition(state.leader_epoch, state.log_end_offset, state.epochs.latest, state.log_start_offset)

    def append(self, records: memoryview) -> Appended | Rejected:
        """Take the leader's batches with their offsets and epochs, all or none, with any gaps between them."""
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
                row, ended = state.producer_states.add_marker(header, base_offset, marker)
                producers[header.producer_id] = row
                aborted.extend(state.note_aborted(ended))
            elif header.producer_id >= 0 and not header.is_control:
                producers[header.producer_id] = state.producer_states.add_batch(
                    header, base_offset, header.max_timestamp
                )
        write = LogWrite(stored, epochs, producers, aborted, replicated=True)
        return Appended(first_offset, state.log_end_offset - 1, -1, write)

    def durable(self, end_offset: int) -> bool:
        """The store has made everything below `end_offset` durable. Returns whether the high watermark moved."""
        self.state.mark_durable(end_offset)
        return self.state.raise_high_watermark(self._leader_high_watermark)

    def leader_commits(self, high_watermark: int) -> bool:
        """The leader reports its high watermark, with a Fetch answer. Returns whether the one here moved."""
        self._leader_high_watermark = high_watermark
        return self.state.raise_high_watermark(high_watermark)

    def leader_starts(self, log_start_offset: int) -> LogWrite | None:
        """The leader reports where its log starts; this one follows, as far as it is committed here.

        Returns the write that makes it durable, if the log start moved.
        """
        self._leader_log_start = max(self._leader_log_start, log_start_offset)
        offset = min(self._leader_log_start, self.state.high_watermark)
        write = self.state.move_log_start(offset)
        return write if isinstance(write, LogWrite) and write.log_start_offset is not None else None

    def reset_offset(self, leader_log_start: int) -> int | None:
        """Where the log has to begin anew after OFFSET_OUT_OF_RANGE, if the leader has deleted all that is here.

        None when the next fetch goes on from the log end: what the leader does not have is cut by epochs.
        """
        return leader_log_start if leader_log_start > self.state.log_end_offset else None

    def truncation(self, diverging: EpochEnd) -> TruncationPoint:
        """Where to cut after the leader has answered with its largest epoch and that epoch's end; see `truncation.py`.

        The caller has the store truncate there and gives what is left to `PartitionState.truncated`.
        """
        return truncation_point(self.state.epochs, self.state.log_end_offset, diverging)


def follow(state: PartitionState, epoch: int, leader_id: int) -> Follower:
    """Follow `leader_id` in `epoch`; one below the epoch known is our own bug."""
    state.enter_epoch(epoch)
    return Follower(state, leader_id)
