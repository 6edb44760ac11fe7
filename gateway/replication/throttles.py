"""The two throttles of a broker's replication (KIP-73), see `partitions/fetching/throttle.py`, as its logs ask them."""

from odradek.partitions.fetching.throttle import ReplicationQuota


class Throttles:
    """`leader` counts what followers are given, `follower` what is fetched from leaders."""

    def __init__(self, windows: int = 11, window_ms: int = 1000) -> None:
        self.leader = ReplicationQuota(windows, window_ms)
        self.follower = ReplicationQuota(windows, window_ms)

    def set_rates(self, leader_bytes_per_s: int, follower_bytes_per_s: int) -> None:
        """Take the rates in force."""
        self.leader.bound, self.follower.bound = leader_bytes_per_s, follower_bytes_per_s
