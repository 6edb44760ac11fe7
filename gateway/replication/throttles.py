"""The two throttles of a broker's replication (KIP-73), shared by its logs; see `partitions/fetching/throttle.py`."""

from odradek.partitions.fetching.throttle import ReplicationQuota


class Throttles:
    """`leader` counts the bytes sent to followers, `follower` the bytes fetched from leaders."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.leader = ReplicationQuota(windows, window_ms)
        self.follower = ReplicationQuota(windows, window_ms)

    def set_rates(self, leader_bytes_per_s: int, follower_bytes_per_s: int) -> None:
        """Set the rates in force."""
        self.leader.bound, self.follower.bound = leader_bytes_per_s, follower_bytes_per_s
