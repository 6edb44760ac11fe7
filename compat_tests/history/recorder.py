"""Records the history of clients in many threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable

from compat_tests.history.served import Watch
from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent, Value


class Recorder:
    """The operations so far; safe to use from any thread."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []
        self._grown = threading.Condition()
        self._counts: Counter[tuple[str, Outcome]] = Counter()
        self._sent_at: dict[Value, int] = {}
        self._watches: tuple[Watch, ...] = ()

    @staticmethod
    def now() -> int:
        """The time, in nanoseconds, for the beginning of an operation."""
        return time.monotonic_ns()

    def intends(self, process: str, began: int, sends: Iterable[Sent]) -> None:
        """A process is about to send; `began` is when its operation began."""
        with self._grown:
            self._sent_at |= {each.value: began for each in sends}

    def watch(self, watch: Watch) -> None:
        """Pass every operation that ends from now on to `watch`, until `unwatch`."""
        with self._grown:
            self._watches += (watch,)

    def unwatch(self, watch: Watch) -> None:
        """Pass no more operations to `watch`."""
        with self._grown:
            self._watches = tuple(each for each in self._watches if each is not watch)

    def add(self, operations: Iterable[Operation]) -> None:
        """Add operations of another process."""
        with self._grown:
            self._operations += operations

    def note(
        self,
        process: str,
        outcome: Outcome,
        began: int,
        steps: Iterable[Sent | Read] = (),
        *,
        assigned: Iterable[Key] = (),
    ) -> None:
        """Record an operation that ends now; one of unknown outcome may still take effect at any time."""
        ended = None if outcome is Outcome.UNKNOWN else self.now()
        operation = Operation(process, outcome, tuple(steps), began, ended, frozenset(assigned))
        with self._grown:
            self._operations.append(operation)
            self._counts[process, outcome] += 1
            for watch in self._watches:
                watch.see(operation, self._sent_at)
            self._grown.notify_all()

    def count(self, process: str, outcome: Outcome = Outcome.OK) -> int:
        """The number of a process's operations with this outcome."""
        with self._grown:
            return self._counts[process, outcome]

    def wait_for(self, process: str, count: int, timeout_s: float = 60) -> None:
        """Return when `count` operations of a process were OK. Raises TimeoutError."""
        with self._grown:
            if not self._grown.wait_for(lambda: self._counts[process, Outcome.OK] >= count, timeout_s):
                raise TimeoutError(f"{process} has only {self._counts[process, Outcome.OK]} of {count} operations")

    def history(self) -> list[Operation]:
        """All operations, in the order in which they began."""
        with self._grown:
            return sorted(self._operations, key=lambda each: each.began)
