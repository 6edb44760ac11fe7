"""Where a follower cuts off what its leader never had, and the producers' rows that the cut takes with it.

A follower names the epoch of its last record. A leader whose history differs answers with its largest epoch that is not
newer, and where that epoch ends (KIP-101, KIP-279, KIP-595). Then, as in Kafka's AbstractFetcherThread:

    the leader answers                    the follower has           cut at                              then
    neither (-1, -1)                      anything                   own end                             done
    no epoch (-1) but an offset           anything                   min(offset, own end)                done
    epoch e, ending at o                  epoch e                    min(o, own end of e, own end)       done
                                          no e, an older epoch f     min(own end of f, own end)          ask about f
                                          no epochs                  min(o, own end)                     done

A cut that moves no offset may still drop epochs that begin at the log end, so it is carried out all the same.

The store forgets each producer's row that was set at or above the cut. `ProducerRebuild` makes the rows again from the
batches that stay, before the cut, so that the store can put them in place in the same transaction: a crash must not
leave a log that takes a producer's retry for a new batch.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.partitions.epochs import EpochHistory
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.producers import Producers
from odradek.partitions.results import NO_LEADER_EPOCH, UNKNOWN_OFFSET, EpochEnd
from odradek.wire.records.batch import iter_headers


class TruncationPoint(NamedTuple):
    """Where the log is cut; unless `is_final` the leader has to be asked about the epoch before it then."""

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
    """Makes the rows of producers from the batches that stay, in offset order.

    `rows` are those that were in force before the first of them. Raises ProducerRowError.
    """

    def __init__(self, rows: Mapping[int, bytes] | None = None) -> None:
        self._producers = Producers.restore(rows or {})

    def add(self, chunk: memoryview) -> None:
        """Take whole batches. Raises odradek.wire.records.errors.InvalidRecordBatch for damage."""
        for header in iter_headers(chunk):
            if not header.has_producer_id:
                continue
            marker = read_end_txn_marker(chunk, header) if header.is_control else None
            if marker is not None:
                self._producers.add_marker(header, header.base_offset, marker)
            elif not header.is_control:
                self._producers.add_batch(header, header.base_offset, header.max_timestamp)

    def rows(self) -> Mapping[int, bytes]:
        """The rows, for `PartitionStore.truncate`."""
        return self._producers.rows()
