"""Truncation of a follower's records that its leader does not have: the offset, and the producers' rows after it.

A follower sends the epoch of its last record. A leader whose history differs returns its largest epoch that is not
newer, and the end of that epoch (KIP-101, KIP-279, KIP-595). Then, as in Kafka's AbstractFetcherThread:

    the leader returns                    the follower has           truncate at                         then
    neither (-1, -1)                      anything                   own end                             done
    no epoch (-1) but an offset           anything                   min(offset, own end)                done
    epoch e, ending at o                  epoch e                    min(o, own end of e, own end)       done
                                          no e, an older epoch f     min(own end of f, own end)          send f
                                          no epochs                  min(o, own end)                     done

A truncation at the log end may still drop epochs that begin there, so it is always carried out.

A truncation removes each producer's row that was written at or above it. `ProducerRebuild` computes the rows of these
producers from the remaining batches beforehand, so that the store can write them in the same transaction: after a crash
the log must not accept a producer's retry as a new batch. A store that has lost rows in a power cut uses it as well
(`StoreOptions.producer_rebuilder`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.partitions.epochs import EpochHistory
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction
from odradek.partitions.producers import Producers
from odradek.partitions.results import NO_LEADER_EPOCH, UNKNOWN_OFFSET, EpochEnd
from odradek.wire.records.batch import iter_headers


class TruncationPoint(NamedTuple):
    """The offset to truncate at; unless `is_final` the leader must then be asked about the preceding epoch."""

    offset: int
    is_final: bool


def truncation_point(epochs: EpochHistory, log_end_offset: int, leader: EpochEnd) -> TruncationPoint:
    """Decide by the table above."""
    if leader.end_offset == UNKNOWN_OFFSET:
        return TruncationPoint(log_end_offset, is_final=True)
    own = epochs.end_of(leader.leader_epoch, log_end_offset)
    if leader.leader_epoch == NO_LEADER_EPOCH or own.end_offset == UNKNOWN_OFFSET:
        return TruncationPoint(min(leader.end_offset, log_end_offset), is_final=True)
    if own.leader_epoch != leader.leader_epoch:
        return TruncationPoint(min(own.end_offset, log_end_offset), is_final=False)
    return TruncationPoint(min(own.end_offset, leader.end_offset, log_end_offset), is_final=True)


class ProducerRebuild:
    """Rebuilds the rows of producers, and the aborted transactions, from the batches that remain, in offset order.

    `rows` were in force before the first of these batches. Raises ProducerRowError.
    """

    def __init__(self, rows: Mapping[int, bytes] | None = None) -> None:
        self._producers = Producers.restore(rows or {})
        self._aborted: list[AbortedTransaction] = []

    def add(self, chunk: memoryview) -> None:
        """Add whole batches. Raises odradek.wire.records.errors.InvalidRecordBatch if they are damaged."""
        for header in iter_headers(chunk):
            if not header.has_producer_id:
                continue
            marker = read_end_txn_marker(chunk, header) if header.is_control else None
            if marker is not None:
                _, aborted = self._producers.end_replicated(header, header.base_offset, marker)
                if aborted is not None:
                    self._aborted.append(aborted)
            elif not header.is_control:
                self._producers.add_replicated(header, header.base_offset)

    def rows(self) -> Mapping[int, bytes]:
        """Returns the rows, for `PartitionStore.truncate`."""
        return self._producers.rows()

    def aborted(self) -> Sequence[AbortedTransaction]:
        """Returns the transactions that the batches have aborted."""
        return self._aborted
