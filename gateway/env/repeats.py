"""Logs a repeated failure when it first happens, and then at intervals with a count."""

import logging
from collections.abc import Hashable
from typing import Final

from odradek.wire.values import mutable

REPORT_EVERY_S: Final = 60
"""The interval between calls of `Repeats.report`, in seconds."""
MAX_KINDS: Final = 1000
"""The maximum number of kinds of failure that are distinguished."""


@mutable
class _Kind:
    logger: logging.Logger
    level: int
    latest: str
    times: int = 0


class Repeats:
    """Counts failures by kind. A kind that did not recur between two calls of `report` is forgotten."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def note(self, key: Hashable, logger: logging.Logger, level: int, message: str, *args: object) -> None:
        """Log a failure of the kind `key` the first time; count it if the kind was logged before."""
        if key not in self._kinds and len(self._kinds) >= MAX_KINDS:
            key = (logger.name, level)
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(logger, level, "")
            logger.log(level, message, *args)
        else:
            kind.times += 1
            kind.latest = message % args

    def report(self) -> None:
        """Log, for each kind that recurred, the number of times since it was last logged, with the latest message."""
        for key, kind in list(self._kinds.items()):
            if kind.times:
                kind.logger.log(kind.level, "%s (times=%d since it was last logged)", kind.latest, kind.times)
                kind.times = 0
            else:
                del self._kinds[key]
