"""Failures that repeat: logged when they begin, and then from time to time with their number."""

import logging
from collections.abc import Hashable
from typing import Final

from odradek.wire.values import mutable

TELL_EVERY_S: Final = 60
"""The interval of calls of `Repeats.tell`."""
MAX_KINDS: Final = 1000
"""How many kinds of failure are distinguished."""


@mutable
class _Kind:
    logger: logging.Logger
    level: int
    latest: str
    times: int = 0


class Repeats:
    """Counts failures by kind. One that did not happen between two calls of `tell` is over."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def note(self, key: Hashable, logger: logging.Logger, level: int, message: str, *args: object) -> None:
        """Log a failure of the kind `key`, unless one of that kind was logged before; then it is counted."""
        if key not in self._kinds and len(self._kinds) >= MAX_KINDS:
            key = (logger.name, level)
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = _Kind(logger, level, "")
            logger.log(level, message, *args)
        else:
            kind.times += 1
            kind.latest = message % args

    def tell(self) -> None:
        """Log how often each kind has happened since it was last logged, with the latest."""
        for key, kind in list(self._kinds.items()):
            if kind.times:
                kind.logger.log(kind.level, "%s (times=%d since it was last logged)", kind.latest, kind.times)
                kind.times = 0
            else:
                del self._kinds[key]
