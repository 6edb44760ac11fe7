"""What must not stand in a history, class by class.

    inconsistent-offsets      two values at one offset
    duplicate                 one value at two offsets
    G1a                       a value was read whose transaction was aborted
    precommitted-read         a transaction read what it had itself sent
    lost-write                committed, and passed over by readers who read further
    unseen                    committed, and never read although everything was read at last
    torn-transaction          one part of a transaction was read, another never
    int-poll-skip             one poll passed over a value
    int-nonmonotonic-poll     one poll went back
    poll-skip, nonmonotonic-poll    the same from one poll of a consumer to its next
    int-nonmonotonic-send     a transaction's sends to a partition stand in another order
    nonmonotonic-send         a producer's transactions or sends stand in another order
    G1c and its kin           see `cycles`

Between the sends of one transaction others may stand (int-send-skip): that is Kafka's contract, and is not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from compat_tests.history.cycles import cycles_of
from compat_tests.history.operations import History, Key, Operation, Value
from compat_tests.history.order import KeyOrder, orders_of


class Anomaly(NamedTuple):
    """What is wrong, and where."""

    kind: str
    key: Key
    detail: str


Orders = dict[Key, KeyOrder]


def anomalies_of(history: History) -> list[Anomaly]:
    """Everything that is wrong with a history; none is what a broker has to show."""
    orders = orders_of(history)
    return [found for check in _CHECKS for found in check(history, orders)]


def _inconsistent_offsets(_: History, orders: Orders) -> Iterator[Anomaly]:
    for key, order in orders.items():
        for offset, values in order.values_at.items():
            if len(values) > 1:
                yield Anomaly("inconsistent-offsets", key, f"offset {offset} has {sorted(values)}")


def _duplicate(_: History, orders: Orders) -> Iterator[Anomaly]:
    for key, order in orders.items():
        places: dict[Value, list[int]] = {}
        for offset, values in order.values_at.items():
            for value in values:
                places.setdefault(value, []).append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                yield Anomaly("duplicate", key, f"{value} is at {sorted(offsets)}")


def _aborted_read(history: History, _: Orders) -> Iterator[Anomaly]:
    writers = history.writers()
    for each in history.ok():
        for read in each.reads:
            writer = writers.get((read.key, read.value))
            if writer is not None and writer.outcome == "fail":
                yield Anomaly("G1a", read.key, f"{each.process} read {read.value} of an aborted transaction")


def _precommitted_read(history: History, _: Orders) -> Iterator[Anomaly]:
    for each in history.ok():
        own = {(send.key, send.value) for send in each.sends}
        for read in each.reads:
            if (read.key, read.value) in own:
                yield Anomaly("precommitted-read", read.key, f"{each.process} read its own {read.value}")


def _lost_write(history: History, orders: Orders) -> Iterator[Anomaly]:
    for each in history.ok():
        for send in each.sends:
            order = orders.get(send.key, KeyOrder())
            index = order.index_of.get(send.value)
            if index is not None and index <= order.highest_read and send.value not in order.read:
                yield Anomaly("lost-write", send.key, f"{send.value} of {each.process} at offset {send.offset}")


def _unseen(history: History, orders: Orders) -> Iterator[Anomaly]:
    if not history.is_final:
        return
    for each in history.ok():
        for send in each.sends:
            if send.value not in orders.get(send.key, KeyOrder()).read:
                yield Anomaly("unseen", send.key, f"{send.value} of {each.process} at offset {send.offset}")


def _torn_transaction(history: History, orders: Orders) -> Iterator[Anomaly]:
    if not history.is_final:
        return
    for each in history.operations:
        seen = [send.value in orders.get(send.key, KeyOrder()).read for send in each.sends]
        if any(seen) and not all(seen):
            missing = [send.value for send, was_seen in zip(each.sends, seen, strict=True) if not was_seen]
            yield Anomaly(
                "torn-transaction", each.sends[0].key, f"{each.process}: {missing} of {len(seen)} are missing"
            )


def _steps_of_polls(history: History, orders: Orders) -> Iterator[Anomaly]:
    for each in history.ok():
        for key, reads in each.reads_by_key().items():
            for before, after in pairwise(reads):
                step = orders[key].index_of[after.value] - orders[key].index_of[before.value]
                yield from _step("int-", key, step, f"{each.process}: {before} then {after}")


def _steps_between_polls(history: History, orders: Orders) -> Iterator[Anomaly]:
    for operations in history.of_processes():
        last: dict[Key, Value] = {}
        for each in operations:
            for key in each.assigned:
                last.pop(key, None)
            if each.outcome != "ok":
                continue
            for key, reads in each.reads_by_key().items():
                if key in last:
                    step = orders[key].index_of[reads[0].value] - orders[key].index_of[last[key]]
                    yield from _step("", key, step, f"{each.process}: {last[key]} then {reads[0]}")
                last[key] = reads[-1].value


def _step(prefix: str, key: Key, step: int, detail: str) -> Iterator[Anomaly]:
    if step > 1:
        yield Anomaly(f"{prefix}poll-skip", key, detail)
    elif step < 1:
        yield Anomaly(f"{prefix}nonmonotonic-poll", key, detail)


def _order_of_sends(history: History, orders: Orders) -> Iterator[Anomaly]:
    for operations in history.of_processes():
        last: dict[Key, int] = {}
        for each in operations:
            for key, indexes in _indexes_of_sends(each, orders):
                if any(after <= before for before, after in pairwise(indexes)):
                    yield Anomaly("int-nonmonotonic-send", key, f"{each.process}: {each.sends}")
                if indexes[0] <= last.get(key, -1):
                    yield Anomaly("nonmonotonic-send", key, f"{each.process}: {each.sends}")
                last[key] = max(indexes[-1], last.get(key, -1))


def _indexes_of_sends(operation: Operation, orders: Orders) -> Iterator[tuple[Key, list[int]]]:
    """Those that are known to stand in the log, in the order sent."""
    for key, sends in operation.sends_by_key().items():
        known = orders.get(key, KeyOrder()).index_of
        indexes = [known[send.value] for send in sends if send.value in known]
        if indexes and operation.outcome != "fail":
            yield key, indexes


def _cycles(history: History, orders: Orders) -> Iterator[Anomaly]:
    for kind, operations in cycles_of(history, orders):
        yield Anomaly(kind, "", f"{[(each.process, each.began) for each in operations]}")


_CHECKS: tuple[Callable[[History, Orders], Iterator[Anomaly]], ...] = (
    _inconsistent_offsets,
    _duplicate,
    _aborted_read,
    _precommitted_read,
    _lost_write,
    _unseen,
    _torn_transaction,
    _steps_of_polls,
    _steps_between_polls,
    _order_of_sends,
    _cycles,
)
