"""Fetch across partitions: when to answer, and how many bytes each partition may give (KIP-74).

The order of the request's partitions is the client's rotation, and kept. Each partition gives at most its own
`partition_max_bytes` and what is left of the request's `max_bytes`. So that a batch larger than either can ever be
read, the first partition that has anything gives its first batch whole, however large; no other partition does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readable:
    """What is known of one partition before it is read.

    `available_bytes` may be an estimate. `answer_now` is set where waiting is pointless: an error, a diverging epoch,
    or data that lies on an older segment.
    """

    partition_max_bytes: int
    available_bytes: int = 0
    answer_now: bool = False


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


@dataclass(frozen=True, slots=True)
class FetchDecision:
    """Whether to answer at once, and each partition's bytes in the order given.

    The allowances follow the estimates: they say how much to read ahead of knowing. While reading, `FetchBudget` counts
    what really came.
    """

    answer_now: bool
    allowances: Sequence[int]


def decide_fetch(partitions: Sequence[Readable], *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> FetchDecision:
    """Decide about a Fetch from what is available now.

    Answered at once when nothing is asked for, when the client doesn't wait (`max_wait_ms` <= 0; pass what is left of
    it, and 0 once it is over), when a partition says so, or when the bytes available reach `min_bytes`.
    """
    allowances = _allowances(partitions, max_bytes)
    answer_now = (
        not partitions
        or max_wait_ms <= 0
        or any(partition.answer_now for partition in partitions)
        or has_enough(partitions, min_bytes)
    )
    return FetchDecision(answer_now, allowances)


def has_enough(partitions: Iterable[Readable], min_bytes: int) -> bool:
    """Whether the readable bytes, each partition counted up to its own maximum, reach `min_bytes`."""
    return min_bytes <= 0 or min_bytes <= sum(
        min(partition.available_bytes, partition.partition_max_bytes) for partition in partitions
    )


def _allowances(partitions: Sequence[Readable], max_bytes: int) -> list[int]:
    budget = FetchBudget(max_bytes)
    allowances: list[int] = []
    for partition in partitions:
        allowed = 0 if budget.is_spent else budget.allowance(partition.partition_max_bytes)
        allowances.append(allowed)
        expected = min(partition.available_bytes, allowed)
        if budget.taken_bytes == 0 and partition.available_bytes > 0:
            expected = max(expected, 1)
        budget.take(expected, allowed)
    return allowances
