"""The requests in flight: at most one to each node, so that each response can be matched to its request."""

from odradek.coordinator.quorum.values import Request, Timing
from odradek.wire.values import mutable


@mutable
class _Exchange:
    number: int
    request: Request | None
    next_ms: int


class Exchanges:
    """The last request to each node, and when the next one may be sent."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._number = 0
        self._by_node: dict[int, _Exchange] = {}

    def next_ms(self, node: int) -> int:
        """Returns when a request may be sent to `node`: after the last response, a pause, or the time-out."""
        found = self._by_node.get(node)
        return 0 if found is None else found.next_ms

    def sent(self, node: int, request: Request, now_ms: int) -> int:
        """Record a request; returns its number. A response to an earlier one is ignored from now on."""
        self._number += 1
        self._by_node[node] = _Exchange(self._number, request, now_ms + self._timing.request_ms)
        return self._number

    def answered(self, node: int, number: int, now_ms: int) -> Request | None:
        """Returns the request that a response belongs to; None for a response that is no longer expected."""
        found = self._by_node.get(node)
        if found is None or found.number != number or found.request is None:
            return None
        request, found.request, found.next_ms = found.request, None, now_ms
        return request

    def pause(self, node: int, now_ms: int, pause_ms: int | None = None) -> None:
        """Send nothing to `node` for `pause_ms`, by default `Timing.retry_ms`.

        It was unreachable, or its response was of no use.
        """
        found = self._by_node.get(node)
        if found is not None:
            found.next_ms = now_ms + (self._timing.retry_ms if pause_ms is None else pause_ms)

    def forget(self) -> None:
        """Ignore the responses to all requests in flight, because the node has changed its state. Pauses are kept."""
        for found in self._by_node.values():
            if found.request is not None:
                found.request, found.next_ms = None, 0
