"""The Python clients behind one small interface, so that a scenario is written once.

A client module has these functions, all blocking:

``produce(bootstrap, topic, records, *, codec, idempotent, max_bytes, during)``
    send all, then wait; per record ``[partition, offset]`` or the error's name. ``during()``
    is called when the first half is acknowledged.
``read(bootstrap, topic, count, *, start)``
    assign every partition, without a group, from ``start`` (partition -> offset) or the earliest; ``count`` records.
``seek(bootstrap, topic, steps)``
    one consumer on partition 0; each step is an offset, "beginning" or "end"; gives position and next offset read.
``consume_group(bootstrap, group, topic, count)``
    join, read exactly ``count`` records, commit the position after the last, leave; records and the commit.
``offsets_for_times(bootstrap, topic, timestamps)``, ``topic_errors(bootstrap, topic, missing)``,
``configs(bootstrap, topic)``
    the results of the client's admin interface.
``transact(bootstrap, transactional_id, source, out, group, steps)``
    a transaction for each step (value, offset, committed): the value to both partitions of ``out``, the offset of
    ``source`` for the group; committed or aborted.
``run_member(bootstrap, group, topic, session_ms, emit, stop)``
    one member of a group until ``stop`` is set: ``emit({"assigned": [...]})``, ``emit({"record": [p, o, value]})``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

EPOCH_MS = 1_700_000_000_000
HEARTBEAT_MS = 300  # of the members of groups
DEADLINE_S = 90.0
"""Far longer than any operation takes: on a busy machine Kafka may take half a minute to restart."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int = EPOCH_MS
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def seen(partition: int, offset: int, key: Any, value: Any, headers: Any, timestamp_ms: int) -> dict[str, Any]:
    """A record as a consumer received it."""
    pairs = [[name, content] for name, content in headers or []]
    where = {"partition": partition, "offset": offset, "timestamp_ms": timestamp_ms}
    return {**where, "key": key, "value": value, "headers": pairs}


def in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorted by partition, in the order received within each: consumers interleave partitions arbitrarily."""
    return sorted(records, key=lambda record: record["partition"])


class Deadline:
    """Bounds a poll loop; its message has what was waited for."""

    def __init__(self, what: str, seconds: float = DEADLINE_S) -> None:
        self._what, self._end = what, time.monotonic() + seconds

    def check(self, so_far: object = "") -> None:
        """Raises TimeoutError once the time is over."""
        if time.monotonic() > self._end:
            raise TimeoutError(f"gave up waiting for {self._what} ({so_far})")


def once(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Returns when the condition holds, or after some seconds: changes in Kafka show shortly after its answers."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        pass
