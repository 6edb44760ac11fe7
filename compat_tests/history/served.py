"""Measures, limits and reports how long clients wait to be served after the beginning, and after the end, of a fault.

A client is served again when it has succeeded with every partition: a producer with an operation that began after that
moment, a consumer with a record whose sending began after it. So neither operations that were under way nor a backlog
count. The longest pause is the longest time without a success for any one partition.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent, Value

PROPERTY = "served"
"""The name of the property of a test's report that contains its measurements."""
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Served:
    """One measurement: `client` was served again `seconds` after `since` of `fault`; None if not within the limit."""

    cluster: str
    fault: str
    since: str
    client: str
    seconds: float | None
    pause_s: float


class Watch:
    """Measures when each of `processes` has succeeded with each of `keys` from now on; safe to use from any thread."""

    def __init__(self, processes: Iterable[str], keys: Collection[Key]) -> None:
        self._keys = tuple(keys)
        self.began = time.monotonic_ns()
        self._last = {process: dict.fromkeys(self._keys, self.began) for process in processes}
        self._unseen = {process: set(self._keys) for process in self._last}
        self._pauses = dict.fromkeys(self._last, 0)
        self._served: dict[str, int] = {}
        self._grown = threading.Condition()

    def see(self, operation: Operation, sent_at: Mapping[Value, int]) -> None:
        """An operation has ended; `sent_at` contains the time when the sending of each value began."""
        if operation.outcome is not Outcome.OK or operation.process not in self._last:
            return
        keys = {step.key for step in operation.steps if self._counts(step, operation.began, sent_at)}
        if keys:
            with self._grown:
                self._take(operation.process, keys, time.monotonic_ns())

    def _counts(self, step: Sent | Read, began: int, sent_at: Mapping[Value, int]) -> bool:
        return (began if isinstance(step, Sent) else sent_at.get(step.value, 0)) >= self.began

    def _take(self, process: str, keys: set[Key], now: int) -> None:
        last, unseen = self._last[process], self._unseen[process]
        for key in keys & last.keys():
            self._pauses[process] = max(self._pauses[process], now - last[key])
            last[key] = now
        unseen -= keys
        if not unseen and process not in self._served:
            self._served[process] = now - self.began
            self._grown.notify_all()

    def wait(self, process: str, timeout_s: float) -> float | None:
        """The seconds until the process was served; None if it was not within `timeout_s` of the beginning."""
        deadline = self.began / NS_PER_S + timeout_s
        with self._grown:
            self._grown.wait_for(lambda: process in self._served, max(deadline - time.monotonic(), 0))
            served = self._served.get(process)
            return None if served is None else served / NS_PER_S

    def pause_s(self, process: str) -> float:
        """The longest pause so far, including one that still lasts."""
        with self._grown:
            lasting = time.monotonic_ns() - min(self._last[process].values())
            return max(self._pauses[process], lasting) / NS_PER_S

    def missing(self, process: str) -> list[Key]:
        """The partitions with which the process has not succeeded."""
        with self._grown:
            return sorted(self._unseen[process])


class ServedTimes:
    """Passes the measurements of one test to `tell` (pytest's `record_property`)."""

    def __init__(self, cluster: str, tell: Callable[[str, object], None]) -> None:
        self._cluster, self._tell = cluster, tell

    def add(self, fault: str, since: str, client: str, seconds: float | None, pause_s: float) -> None:
        """Pass one measurement on."""
        measured = Served(self._cluster, fault, since, client, seconds, pause_s)
        self._tell(PROPERTY, json.dumps(asdict(measured)))


def reported(reports: Iterable[Any]) -> list[Served]:
    """The measurements in pytest's reports, in order and without duplicates."""
    found: dict[str, None] = {}
    for report in reports:
        found |= {text: None for name, text in getattr(report, "user_properties", ()) if name == PROPERTY}
    return [Served(**json.loads(text)) for text in found]


def table(measured: Sequence[Served]) -> list[str]:
    """The measurements in Markdown: a line for each fault and moment, a column for each client.

    Of several measurements for one cell, the largest is shown.
    """
    clients = sorted({each.client for each in measured}, key=lambda client: (not client.startswith("rd"), client))
    rows: dict[tuple[str, str, str], dict[str, list[Served]]] = {}
    for each in measured:
        rows.setdefault((each.cluster, each.fault, each.since), {}).setdefault(each.client, []).append(each)
    lines = [f"| cluster | fault | since | {' | '.join(clients)} |", "|---" * (3 + len(clients)) + "|"]
    for labels, cells in rows.items():
        texts = [_cell(cells.get(client, ())) for client in clients]
        lines.append(f"| {' | '.join((*labels, *texts))} |")
    return lines


def _cell(measured: Sequence[Served]) -> str:
    if not measured:
        return ""
    if any(each.seconds is None for each in measured):
        return "never"
    served = max(each.seconds or 0.0 for each in measured)
    pause = max(each.pause_s for each in measured)
    return f"{served:.1f}" if pause < served + 1 else f"{served:.1f} ({pause:.1f})"
