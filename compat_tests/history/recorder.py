"""Writes a history down while many threads make it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable

from compat_tests.history.operations import History, Operation, Outcome, Read, Send


class Recorder:
    """The operations so far; safe to use from any thread."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._lock = threading.Lock()
        self._grown = threading.Condition(self._lock)
        self._counts: Counter[tuple[str, str]] = Counter()

    @staticmethod
    def now() -> int:
        """When an operation begins."""
        return time.monotonic_ns()

    def note(
        self,
        process: str,
        outcome: Outcome,
        began: int,
        *,
        sends: Iterable[Send] = (),
        reads: Iterable[Read] = (),
        assigned: Iterable[str] = (),
    ) -> None:
        """An operation has ended now."""
        parts = tuple(sends), tuple(reads), frozenset(assigned)
        with self._grown:
            self._operations.append(Operation(process, outcome, began, self.now(), *parts))
            self._counts[process, outcome] += 1
            self._grown.notify_all()

    def count(self, process: str, outcome: str) -> int:
        """How many operations of a process have ended so."""
        with self._lock:
            return self._counts[process, outcome]

    def wait_for(self, process: str, count: int, timeout_s: float = 60) -> None:
        """Return when `count` operations of a process were ok. Raises TimeoutError: it does not get on."""
        with self._grown:
            if not self._grown.wait_for(lambda: self._counts[process, "ok"] >= count, timeout_s):
                raise TimeoutError(f"{process} has only {self._counts[process, 'ok']} of {count} operations")

    def history(self) -> History:
        """All of it."""
        with self._lock:
            return History(tuple(self._operations))
