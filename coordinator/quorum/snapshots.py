"""Snapshots: where a replica has to go on that fetches, and the one that it downloads (KIP-630).

A log that begins at 0 tells every replica where its own differs. One that was trimmed begins behind a snapshot, its
*base*: a replica that has not come that far, or has other records there, fetches the newest snapshot and begins anew
behind it. All that it has beyond the base differs from what was committed, so nothing that counts is lost.
"""

from odradek.coordinator.quorum.values import EpochEnd, FetchSnapshotAnswer, QuorumLog, SnapshotId
from odradek.wire.values import mutable


def place_of(log: QuorumLog, offset: int, last_epoch: int) -> EpochEnd | SnapshotId | None:
    """Where a replica goes on whose log ends at `offset` with a record of `last_epoch`.

    None: there. An `EpochEnd`: the logs agree at most up to it. A `SnapshotId`: behind that snapshot.
    """
    base = log.base
    if base is None:
        if offset == 0 and last_epoch <= 0:
            return None  # an empty log is part of any other
    elif (
        offset < base.end_offset or last_epoch < base.epoch or (offset == base.end_offset and last_epoch != base.epoch)
    ):
        return log.newest_snapshot
    end = log.epoch_end(last_epoch)
    return end if end.epoch != last_epoch or end.offset < offset else None


@mutable
class Download:
    """The download of a snapshot; `is_storing` while the caller stores the bytes received last."""

    snapshot: SnapshotId
    position: int = 0
    is_storing: bool = False

    def takes(self, answer: FetchSnapshotAnswer) -> bool:
        """Whether an answer has the bytes that come next."""
        is_next = answer.snapshot == self.snapshot and answer.position == self.position
        return is_next and 0 < answer.length <= answer.size - answer.position


def is_behind(log: QuorumLog, snapshot: SnapshotId) -> bool:
    """Whether a log has to begin anew behind a snapshot that it does not reach: the node ended between the two."""
    return log.end_offset < snapshot.end_offset or max(log.last_epoch, 0) < snapshot.epoch
