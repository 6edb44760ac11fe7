"""The byte budget of a Fetch: how many bytes each partition may return (KIP-74).

Partitions are read in the order of the request, which the client rotates. Each returns at most its own
`partition_max_bytes` and what remains of the request's `max_bytes`. To guarantee progress with a batch larger than
either limit, the first partition that has any data returns its first batch whole, whatever its size; no other does.

What a partition has but may not return counts as available, up to its limit: a Fetch waits for `min_bytes` of available
bytes, since it would wait in vain for bytes that its limits keep out of the response.
"""


class FetchBudget:
    """The bytes that remain while the partitions of one Fetch are read in order."""

    def __init__(self, max_bytes: int) -> None:
        self._left_bytes = max(0, max_bytes)
        self._taken_bytes = 0
        self._available_bytes = 0

    @property
    def taken_bytes(self) -> int:
        """The bytes returned by the partitions so far."""
        return self._taken_bytes

    @property
    def available_bytes(self) -> int:
        """The bytes that the partitions have, of each at most what it might return; never less than `taken_bytes`."""
        return self._available_bytes

    @property
    def is_spent(self) -> bool:
        """True if no further partition can return anything, so that reading it would be a waste."""
        return self._left_bytes == 0 and self._taken_bytes > 0

    def allowance(self, partition_max_bytes: int) -> int:
        """Returns the bytes to read from the store, which may return one larger first batch; `take` checks it."""
        return max(0, min(partition_max_bytes, self._left_bytes))

    def take(self, offered_bytes: int, allowed_bytes: int, *, has_more: bool = False) -> bool:
        """Count the bytes that a partition offers; returns False when they must be left out of this response.

        `has_more`: batches follow the offered ones that did not fit.
        """
        is_refused = offered_bytes > allowed_bytes and self._taken_bytes > 0
        self._available_bytes += allowed_bytes if is_refused else max(offered_bytes, allowed_bytes * has_more)
        if is_refused:
            return False
        self._taken_bytes += offered_bytes
        self._left_bytes = max(0, self._left_bytes - offered_bytes)
        return True
