"""Fetch across partitions: how many bytes each partition may give (KIP-74).

The order of the request's partitions is the client's rotation, and kept. Each partition gives at most its own
`partition_max_bytes` and what is left of the request's `max_bytes`. So that a batch larger than either can ever be
read, the first partition that has anything gives its first batch whole, however large; no other partition does.
"""


class FetchBudget:
    """The bytes left while the partitions of one Fetch are read in order."""

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max(0, max_bytes)
        self._taken_bytes = 0

    @property
    def taken_bytes(self) -> int:
        """What the partitions gave so far."""
        return self._taken_bytes

    @property
    def is_spent(self) -> bool:
        """Whether no further partition can give anything, so that reading it is a waste."""
        return self._left_bytes == 0 and self._taken_bytes > 0

    def allowance(self, partition_max_bytes: int) -> int:
        """How many bytes to ask the store for; it may offer one larger first batch, which `take` then judges."""
        return max(0, min(partition_max_bytes, self._left_bytes))

    def take(self, offered_bytes: int, allowed_bytes: int) -> bool:
        """Count what a partition offers within its allowance; False when it has to be left out this time."""
        if offered_bytes > allowed_bytes and self._taken_bytes > 0:
            return False
        self._taken_bytes += offered_bytes
        self._left_bytes = max(0, self._left_bytes - offered_bytes)
        return True
