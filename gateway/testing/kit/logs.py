"""The last log lines of the brokers that a test uses, for the report of its failure.

Brokers in this process log to `odradek` and its children. `BrokerLog` keeps their lines of level INFO, and other
handlers that are named to it get only what they would have got without it. Nodes write files.
"""

import json
import logging
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Final

from odradek.gateway.cli.visible import visible, visible_lines

LOGGER: Final = "odradek"
KEPT_LINES: Final = 500
SHOWN_LINES: Final = 50
READ_BYTES: Final = 64 * 1024
"""The end of a node's log in which its last lines are searched."""
_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s"


class BrokerLog(logging.Handler):
    """Keeps the last lines that brokers in this process have logged, from `attach` to `detach`."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S")
        formatter.converter = time.gmtime
        self.setFormatter(formatter)
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.count = 0
        self._logger = logging.getLogger(LOGGER)
        self._level, self._own_level = logging.NOTSET, logging.INFO
        self._others: list[logging.Handler] = []

    def attach(self, others: Iterable[logging.Handler]) -> None:
        """Keep lines from now on. The handlers `others` go on as if nothing else were logged than before."""
        self._level = self._logger.level
        self._own_level = min(self._logger.getEffectiveLevel(), logging.INFO)
        self._others = list(others)
        for other in self._others:
            other.addFilter(self._is_for_others)
        self._logger.setLevel(self._own_level)
        self._logger.addHandler(self)

    def detach(self) -> None:
        """Leave the logger and the other handlers as they were."""
        self._logger.removeHandler(self)
        for other in self._others:
            other.removeFilter(self._is_for_others)
        if self._logger.level == self._own_level:
            self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._lines.append(visible_lines(self.format(record)))
        self.count += 1

    def _is_for_others(self, record: logging.LogRecord) -> bool:
        is_ours = record.name.split(".", 1)[0] == LOGGER
        return not is_ours or record.levelno >= self._level_without_this(record.name)

    def _level_without_this(self, name: str) -> int:
        """The level from which on a logger would log, had `attach` not changed `odradek`'s."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            level = self._level if logger is self._logger and logger.level == self._own_level else logger.level
            if level:
                return level
            logger = logger.parent
        return logging.NOTSET

    def since(self, count: int) -> str:
        """The last lines of those logged since `self.count` was `count`."""
        lines = list(self._lines)
        new = min(self.count - count, SHOWN_LINES, len(lines))
        return "\n".join(islice(lines, len(lines) - new, None))


def tail_of_node(path: Path, since_bytes: int) -> str:
    """The last lines of a node's log, of those after its first `since_bytes`."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since_bytes, size - READ_BYTES))
            text = file.read(READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([_as_text(line) for line in text.splitlines()[-SHOWN_LINES:]])


def _as_text(line: str) -> str:
    """A line of JSON as text: time, level, message, fields; any other line as it is."""
    try:
        fields: dict[str, Any] = json.loads(line)
        named = "".join([f" {key}={value}" for key, value in fields.items() if key not in _HEAD])
        return visible(f"{fields['time']} {fields['level']:<7} {fields['message']}{named}")
    except (ValueError, KeyError, AttributeError, TypeError):
        return visible(line)


_HEAD: Final = frozenset(("time", "level", "message", "logger", "node"))
