"""The order of the values in each partition, put together from all that was read and acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from compat_tests.history.operations import History, Key, Operation, Value


@dataclass(slots=True)
class KeyOrder:
    """One partition: what stands where. Indexes count committed values, so that markers and aborts leave no gaps."""

    values_at: dict[int, set[Value]] = field(default_factory=dict)
    index_of: dict[Value, int] = field(default_factory=dict)
    read: set[Value] = field(default_factory=set)

    def put(self, offset: int, value: Value) -> None:
        self.values_at.setdefault(offset, set()).add(value)

    def number(self) -> None:
        """Give the values their indexes; a value in two places has its last one."""
        for index, offset in enumerate(sorted(self.values_at)):
            for value in self.values_at[offset]:
                self.index_of[value] = index

    @property
    def highest_read(self) -> int:
        """The index of the last value that was read, -1 when none was."""
        return max((self.index_of[value] for value in self.read), default=-1)

    def adjacent(self) -> Iterator[tuple[Value, Value]]:
        """Each value with the next one."""
        ordered = sorted(self.index_of, key=self.index_of.__getitem__)
        return pairwise(ordered)


def orders_of(history: History) -> dict[Key, KeyOrder]:
    """From all reads that happened, and all sends that did or whose transaction was seen to have."""
    orders: dict[Key, KeyOrder] = {}
    for each in history.ok():
        for read in each.reads:
            order = orders.setdefault(read.key, KeyOrder())
            order.put(read.offset, read.value)
            order.read.add(read.value)
    for each in history.operations:
        if each.outcome == "ok" or (each.outcome == "info" and _was_seen(each, orders)):
            for send in each.sends:
                if send.offset is not None:
                    orders.setdefault(send.key, KeyOrder()).put(send.offset, send.value)
    for order in orders.values():
        order.number()
    return orders


def _was_seen(operation: Operation, orders: dict[Key, KeyOrder]) -> bool:
    return any(send.key in orders and send.value in orders[send.key].read for send in operation.sends)
