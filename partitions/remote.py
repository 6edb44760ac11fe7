"""The leader's state of another replica, taken from that replica's fetches in the leader's current epoch.

The fetch offset is the acknowledgement: a follower fetches from the offset up to which its log is durable. Nothing is
carried over from an earlier epoch, because the follower may have truncated records since.
"""

from typing import Final

from odradek.partitions.results import UNKNOWN_OFFSET

UNKNOWN_BROKER_EPOCH: Final = -1
"""The epoch of a broker that has not fetched, or whose fetches do not carry an epoch."""
_NEVER: Final = -(2**62)


class RemoteReplica:
    """The progress of one follower in this epoch; times are of the leader's monotonic clock.

    `log_end_offset` and `log_start_offset` are -1 until it has fetched. `last_caught_up_ms` is the latest time at which
    it had everything that was readable at that time.
    """

    __slots__ = (
        "_last_fetch_ms",
        "_readable_at_last_fetch",
        "broker_epoch",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, now_ms: int, *, in_sync: bool) -> None:
        self.log_end_offset: int = UNKNOWN_OFFSET
        self.log_start_offset: int = UNKNOWN_OFFSET
        self.broker_epoch: int = UNKNOWN_BROKER_EPOCH
        self.last_caught_up_ms: int = now_ms if in_sync else _NEVER
        self._last_fetch_ms: int = _NEVER
        self._readable_at_last_fetch: int = 2**63 - 1

    @property
    def has_fetched(self) -> bool:
        """True if it has fetched in this epoch."""
        return self.log_end_offset != UNKNOWN_OFFSET

    def fetched(self, offset: int, log_start_offset: int, broker_epoch: int, readable_end: int, now_ms: int) -> None:
        """The follower fetches from `offset`; everything below `readable_end` is readable now.

        It has caught up now if it has all of that. It had caught up at its last fetch if it has all that was readable
        then: under a steady load a follower is always a little behind.
        """
        if offset >= readable_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._readable_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_ms = now_ms
        self._readable_at_last_fetch = readable_end

    def is_caught_up(self, readable_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """True if it has everything, or had everything within `max_lag_ms` (`replica.lag.time.max.ms`)."""
        return self.log_end_offset == readable_end or now_ms - self.last_caught_up_ms <= max_lag_ms
