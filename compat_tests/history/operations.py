"""What a client did, as it was told.

A *key* is a partition; every value is sent once only, by one operation. An operation is a transaction, a send outside
of one, a poll, or that a consumer was assigned a position anew. Its outcome is

    ok      it has happened: committed, acknowledged, or read
    fail    it has not and never will: no commit was ever asked for
    info    it was not answered; either may be
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Key = str
Value = str
Outcome = Literal["ok", "fail", "info"]


class Send(NamedTuple):
    """A record sent; the offset where the client was told one."""

    key: Key
    value: Value
    offset: int | None = None


class Read(NamedTuple):
    """A record read."""

    key: Key
    value: Value
    offset: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a process, from `began` to `ended` on one clock; operations of a process do not overlap."""

    process: str
    outcome: Outcome
    began: int
    ended: int
    sends: tuple[Send, ...] = ()
    reads: tuple[Read, ...] = ()
    assigned: frozenset[Key] = field(default_factory=frozenset)
    """Keys that the process begins to read anywhere it likes."""

    def sends_by_key(self) -> dict[Key, list[Send]]:
        """In the order sent."""
        found: dict[Key, list[Send]] = {}
        for send in self.sends:
            found.setdefault(send.key, []).append(send)
        return found

    def reads_by_key(self) -> dict[Key, list[Read]]:
        """In the order read."""
        found: dict[Key, list[Read]] = {}
        for read in self.reads:
            found.setdefault(read.key, []).append(read)
        return found


@dataclass(frozen=True, slots=True)
class History:
    """All operations, in the order in which they ended. `is_final`: at last everything was read from the beginning."""

    operations: tuple[Operation, ...]
    is_final: bool = True

    def ok(self) -> Iterator[Operation]:
        """Those that have happened."""
        return (each for each in self.operations if each.outcome == "ok")

    def of_processes(self) -> Iterator[list[Operation]]:
        """The operations of each process, in order."""
        found: dict[str, list[Operation]] = {}
        for each in self.operations:
            found.setdefault(each.process, []).append(each)
        return iter(found.values())

    def writers(self) -> dict[tuple[Key, Value], Operation]:
        """Who sent what."""
        return {(send.key, send.value): each for each in self.operations for send in each.sends}
