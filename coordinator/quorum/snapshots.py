"""Snapshots: where a fetching replica has to continue, and the download of a snapshot (KIP-630).

With a log that begins at offset 0, a leader can determine for every replica where the logs diverge. A log that was
trimmed begins after a snapshot, its *base*: a replica that has not reached the base, or has other records there,
fetches the newest snapshot and restarts its log after it. All of its records beyond the base differ from the committed
ones, so no committed record is lost.
"""

from odradek.coordinator.quorum.values import EpochEnd, FetchSnapshotAnswer, QuorumLog, SnapshotId
from odradek.wire.values import mutable


def divergence_of(log: QuorumLog, offset: int, last_epoch: int) -> EpochEnd | SnapshotId | None:
    """Returns where a replica must continue whose log ends at `offset` with a record of `last_epoch`.

    None: at `offset`. An `EpochEnd`: the logs agree at most up to it. A `SnapshotId`: after that snapshot.
    """
    base = log.base
    if base is None:
        if offset == 0 and last_epoch <= 0:
            return None  # an empty log is a prefix of any other
    elif (
        offset < base.end_offset or last_epoch < base.epoch or (offset == base.end_offset and last_epoch != base.epoch)
    ):
        return log.newest_snapshot
    end = log.epoch_end(last_epoch)
    return end if end.epoch != last_epoch or end.offset < offset else None


def agreed_end(log: QuorumLog, diverging: EpochEnd, high_watermark: int) -> int:
    """Returns the offset at which to truncate a log whose leader has found that it differs beyond `diverging`."""
    own = log.epoch_end(diverging.epoch)
    offset = min(diverging.offset, log.end_offset, own.offset if own.offset >= 0 else log.end_offset)
    logs = f"{diverging} own={own} end={log.end_offset}/{log.last_epoch} base={log.base}"
    assert offset >= high_watermark, f"committed records would be cut: {offset} < {high_watermark} {logs}"
    return offset


@mutable
class Download:
    """The download of a snapshot; `is_storing` is True while the caller stores the bytes received last."""

    snapshot: SnapshotId
    position: int = 0
    is_storing: bool = False

    def takes(self, answer: FetchSnapshotAnswer) -> bool:
        """True if a response has the next bytes."""
        is_next = answer.snapshot == self.snapshot and answer.position == self.position
        return is_next and 0 < answer.length <= answer.size - answer.position


def is_behind(log: QuorumLog, snapshot: SnapshotId) -> bool:
    """True if a log must restart after a stored snapshot that it does not contain: the node stopped before it did.

    The log may end before the snapshot's end, or have other records there, which no majority has.
    """
    if log.end_offset < snapshot.end_offset or max(log.last_epoch, 0) < snapshot.epoch:
        return True
    base = log.base
    if base is not None and base.end_offset >= snapshot.end_offset:
        return False
    end = log.epoch_end(snapshot.epoch)
    return end.offset >= 0 and (end.epoch != snapshot.epoch or end.offset < snapshot.end_offset)
