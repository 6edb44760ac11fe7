"""A partition's follower: takes the leader's batches as they are, and cuts off what the leader never had.

What a batch says was judged by the leader, so only its checksum and its offsets are checked here. The high watermark is
the leader's, as far as the records below it are durable here. Truncation goes by epochs (`truncation.py`), never by a
high watermark: a record below the leader's may be above this one (KIP-101).
"""

from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite, StoredBatch
from odradek.partitions.reads import Reads
from odradek.partitions.results import Appended, EpochEnd, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import TruncationPoint, truncation_point
from odradek.partitions.validation import read_replicated_batches
from odradek.wire.records.batch import batch_bytes


class Follower(Reads):
    """The following role over a state. Made by `follow`."""

    leads = False

    def __init__(self, state: PartitionState, leader_id: int) -> None:
        super().__init__(state)
        self.leader_id = leader_id
        self._leader_high_watermark = 0

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

    def truncation(self, diverging: EpochEnd) -> TruncationPoint:
        """Where to cut after the leader has answered with its largest epoch and that epoch's end; see `truncation.py`.

        The caller has the store truncate there and gives what is left to `PartitionState.truncated`.
        """
        return truncation_point(self.state.epochs, self.state.log_end_offset, diverging)


def follow(state: PartitionState, epoch: int, leader_id: int) -> Follower:
    """Follow `leader_id` in `epoch`; one below the epoch known is our own bug."""
    state.enter_epoch(epoch)
    return Follower(state, leader_id)
