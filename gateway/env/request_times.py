"""Counts the requests that this broker has answered, and the time of each from its decoding to its reply."""

from collections.abc import Callable

from odradek.gateway.env.durations import Durations
from odradek.wire.api_keys import ApiKey


class RequestTimes:
    """The answered requests by API and version. Written on the Trio thread; any thread may read it.

    `clock_us` returns microseconds on a clock that never goes back. A request whose connection ended before its reply
    was ready is not counted.
    """

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.now_us = clock_us
        self.by_api: dict[ApiKey, Durations] = {}
        self.by_version: dict[tuple[ApiKey, int], int] = {}

    def answered(self, api_key: ApiKey, version: int, began_us: int) -> None:
        """Count a request that was decoded at `began_us` and whose reply is now ready."""
        durations = self.by_api.get(api_key)
        if durations is None:
            durations = self.by_api[api_key] = Durations()
        durations.add(self.now_us() - began_us)
        kind = (api_key, version)
        self.by_version[kind] = self.by_version.get(kind, 0) + 1
