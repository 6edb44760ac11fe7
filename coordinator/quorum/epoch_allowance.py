"""How far requests of other nodes may raise the epoch of the quorum.

An epoch has 32 bits. A single request that claims the last one would end the quorum: no later election has a number.
Each election raises the epoch by one, so the allowance of a node is a bucket that fills faster than elections happen
and holds more than a node misses while it is cut off. A node that has missed even more learns the epoch from the
responses to its own requests, which go to addresses of voters that it knows.
"""

from collections.abc import Collection
from typing import Final

from odradek.wire.errors import ErrorCode

MAX_EPOCH: Final = 2**31 - 1
"""The last epoch: no node can be elected after it."""
MOST_EPOCHS: Final = 10_000
"""The epochs by which requests may raise a node's epoch at once."""
MS_AN_EPOCH: Final = 100
"""The time after which one more epoch is allowed."""


class EpochAllowance:
    """The epochs by which requests may still raise the epoch. It is full at the start."""

    def __init__(self, now_ms: int) -> None:
        self._left = MOST_EPOCHS
        self._counted_ms = now_ms

    def refusal(self, sender: int, voters: Collection[int] | None, epochs: int, now_ms: int) -> ErrorCode:
        """Returns why a request that raises the epoch by `epochs` must change nothing; NONE if it may.

        `voters` is None if they are in the log: a sender may be a voter by a record that is not here yet (KIP-853).
        """
        if sender < 0:
            return ErrorCode.INVALID_REQUEST
        if voters is not None and sender not in voters:
            return ErrorCode.INCONSISTENT_VOTER_SET
        return ErrorCode.NONE if self._take(epochs, now_ms) else ErrorCode.INVALID_REQUEST

    def _take(self, epochs: int, now_ms: int) -> bool:
        """Use `epochs` of the allowance. Returns False, and uses none, if fewer are left."""
        gained = (now_ms - self._counted_ms) // MS_AN_EPOCH
        self._left = min(self._left + gained, MOST_EPOCHS)
        self._counted_ms += gained * MS_AN_EPOCH
        if epochs > self._left:
            return False
        self._left -= max(epochs, 0)
        return True
