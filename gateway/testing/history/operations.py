"""The operations of clients: sends and polls, with the results that the client itself observed."""

import dataclasses
from collections.abc import Iterator, Sequence
from enum import Enum

Key = tuple[str, int]
"""A partition: its topic and index."""
Value = int | str
"""Identifies a record: a test sends each value at most once to a partition."""


class Outcome(Enum):
    """How an operation ended. An operation without a transaction counts as committed when it is acknowledged."""

    OK = "acknowledged, or committed"
    FAILED = "certainly not done, or aborted"
    UNKNOWN = "the client does not know"


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A record that was sent; `offset` is None if the client did not receive it."""

    key: Key
    value: Value
    offset: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A record that a poll returned."""

    key: Key
    offset: int
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One send, poll or transaction of a client, with its steps in order.

    `process` is a client, which runs one operation at a time. `began` and `ended` are positions in an order of events
    that all clients share (virtual microseconds, a counter); `ended` is None if the client never received the result.
    `assigned` are partitions that were newly assigned to the client during or before the operation: its position in
    them may jump.
    """

    process: str
    outcome: Outcome
    steps: Sequence[Sent | Read]
    began: int
    ended: int | None
    assigned: frozenset[Key] = frozenset()

    @property
    def sends(self) -> Iterator[Sent]:
        """The records that it sent, in order."""
        return (step for step in self.steps if isinstance(step, Sent))

    @property
    def reads(self) -> Iterator[Read]:
        """The records that it read, in order."""
        return (step for step in self.steps if isinstance(step, Read))


History = Sequence[Operation]
"""Operations in the order in which they began."""


def by_process(history: History) -> dict[str, list[Operation]]:
    """The operations of each client, in order."""
    found: dict[str, list[Operation]] = {}
    for operation in history:
        found.setdefault(operation.process, []).append(operation)
    return found
