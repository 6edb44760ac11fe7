"""What clients did: sends and polls in operations, as each client itself has seen them."""

import dataclasses
from collections.abc import Iterator, Sequence
from enum import Enum

Key = tuple[str, int]
"""A partition: its topic and index."""
Value = int | str
"""What identifies one record: a test sends a value at most once to a partition."""


class Outcome(Enum):
    """How an operation ended. An operation without transaction is one that has committed when it was acknowledged."""

    OK = "acknowledged, or committed"
    FAILED = "certainly not done, or aborted"
    UNKNOWN = "the client does not know"


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A record that was sent; `offset` is None where the client was not told it."""

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
    """One send, poll or transaction of a client, its steps in the order in which the client did them.

    `process` is a client that does one operation after the other. `began` and `ended` are positions in any one order of
    events that all clients share (virtual microseconds, a counter); `ended` is None where the client never knew.
    `assigned` are partitions that the client was given anew during or before the operation: its position in them may
    jump.
    """

    process: str
    outcome: Outcome
    steps: Sequence[Sent | Read]
    began: int
    ended: int | None
    assigned: frozenset[Key] = frozenset()

    @property
    def sends(self) -> Iterator[Sent]:
        """What it sent, in order."""
        return (step for step in self.steps if isinstance(step, Sent))

    @property
    def reads(self) -> Iterator[Read]:
        """What it read, in order."""
        return (step for step in self.steps if isinstance(step, Read))


History = Sequence[Operation]
"""Operations in the order in which they began."""


def by_process(history: History) -> dict[str, list[Operation]]:
    """Each client's operations, in their order."""
    found: dict[str, list[Operation]] = {}
    for operation in history:
        found.setdefault(operation.process, []).append(operation)
    return found
