"""The requests under way: one to each node at a time, so that each answer is known to be that of its request."""

from odradek.coordinator.quorum.values import Request, Timing
from odradek.wire.values import mutable


@mutable
class _Exchange:
    number: int
    request: Request | None
    next_ms: int


class Exchanges:
    """What was sent to whom, and when the next request may follow."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._number = 0
        self._by_node: dict[int, _Exchange] = {}

    def next_ms(self, node: int) -> int:
        """When a request may be sent to `node`: after the answer to the last one, a pause, or the time-out."""
        found = self._by_node.get(node)
        return 0 if found is None else found.next_ms

    def sent(self, node: int, request: Request, now_ms: int) -> int:
        """Take note of a request; returns its number. An answer to an earlier one is void from now on."""
        self._number += 1
        self._by_node[node] = _Exchange(self._number, request, now_ms + self._timing.request_ms)
        return self._number

    def answered(self, node: int, number: int, now_ms: int) -> Request | None:
        """The request that an answer is for; None for an answer that is not awaited any more."""
        found = self._by_node.get(node)
        if found is None or found.number != number or found.request is None:
            return None
        request, found.request, found.next_ms = found.request, None, now_ms
        return request

    def pause(self, node: int, now_ms: int) -> None:
        """Send nothing to `node` for a moment: it could not be reached, or had nothing to say."""
        found = self._by_node.get(node)
        if found is not None:
            found.next_ms = now_ms + self._timing.retry_ms

    def forget(self) -> None:
        """No answer is awaited any more: the node is in another state. Pauses stay."""
        for found in self._by_node.values():
            if found.request is not None:
                found.request, found.next_ms = None, 0
