"""Counts the requests that this broker has answered, and the time of each from its decoding to its reply."""

from collections.abc import Callable

from odradek.gateway.env.durations import Durations
from odradek.wire.api_keys import ApiKey


class RequestTimes:
    """The answered requests by API and version. Written on the Trio thread; any thread may read it.

    `clock_us` returns microseconds on a clock that never goes back. A request whose connection ended before its reply
    was ready is not counted. A request of a kind that Kafka counts apart, such as a follower's Fetch, is counted under
    the name of that kind also.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.now_us = clock_us
        self.by_api: dict[ApiKey | str, Durations] = {}
        self.by_version: dict[tuple[ApiKey | str, int], int] = {}

    def answered(self, api_key: ApiKey, version: int, began_us: int, kind: str = "") -> None:
        """Count a request that was decoded at `began_us` and whose reply is now ready."""
        took_us = self.now_us() - began_us
        self._count(api_key, version, took_us)
        if kind:
            self._count(kind, version, took_us)

    def _count(self, request: ApiKey | str, version: int, took_us: int) -> None:
        durations = self.by_api.get(request)
        if durations is None:
            durations = self.by_api[request] = Durations()
        durations.add(took_us)
        key = (request, version)
        self.by_version[key] = self.by_version.get(key, 0) + 1
