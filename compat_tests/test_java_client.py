"""The Java client's transactions (transaction.version 2) against Odradek and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparison import Case, CaseBook, Comparison, Side, is_missing
from compat_tests.every_version import Wire
from compat_tests.java_clients import JavaConsumer, JavaProducer, JavaVm, outcome
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest

BOOK = CaseBook("java-tools", needs="Java")


@pytest.fixture(scope="module", autouse=True)
def java_vm() -> Iterator[None]:
    """The module's JVM; other modules that run these cases use this fixture as well."""
    if is_missing("Java"):
        yield
        return
    _vm.append(JavaVm())
    yield
    _vm.pop().close()


_vm: list[JavaVm] = []


def java() -> JavaVm:
    """The module's JVM."""
    return _vm[0]


def read(side: Side, topic: str, partition: int = 0, level: str = "read_committed") -> list[tuple[int, str]]:
    consumer = JavaConsumer(java(), side.bootstrap, isolation_level=level)
    try:
        return consumer.read_to_end(topic, partition)
    finally:
        consumer.close()


def committed(side: Side, group: str, topic: str) -> int | None:
    consumer = JavaConsumer(java(), side.bootstrap, group_id=group)
    try:
        return consumer.committed(topic, 0)
    finally:
        consumer.close()


def epoch_of(side: Side, transactional_id: str) -> int:
    request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    for broker in side.bootstrap.split(","):
        with Wire(broker) as wire:
            [state] = wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
            if not state.error_code:
                return state.producer_epoch
    raise AssertionError(f"no broker coordinates {transactional_id}")


@BOOK.case("transactions")
def consume_transform_produce(side: Side) -> Any:
    """Two commits, two aborts, an empty transaction, and a producer that another one fences."""
    source, out, group = side.topic("in"), side.topic("out", partitions=2), side.name("group")
    producer = JavaProducer(java(), side.bootstrap, side.name("id"))
    producer.init()
    offsets: list[Any] = []
    for value, offset, commits in (("a", 3, True), ("b", 5, False), ("c", 7, True), ("d", 9, False)):
        producer.begin()
        sent = [producer.send(out, partition, value) for partition in range(2)]
        offsets.append([producer.offset_of(each) for each in sent])
        producer.send_offsets(group, source, 0, offset)
        producer.end(committed=commits)
        offsets.append(committed(side, group, source))
    for commits in (False, True):
        producer.begin()
        producer.end(committed=commits)
    producer.begin()
    producer.offset_of(producer.send(out, 0, "left open"))
    successor = JavaProducer(java(), side.bootstrap, side.name("id"))
    successor.init()
    fenced = outcome(lambda: producer.offset_of(producer.send(out, 0, "zombie")))
    ended = outcome(lambda: producer.end(committed=True))
    successor.begin()
    successor.send(out, 0, "e")
    successor.end(committed=True)
    epoch = epoch_of(side, side.name("id"))
    assert epoch >= 7, "the client does not follow transaction.version 2"
    for each in (producer, successor):
        each.close()
    while not any(value == "e" for _, value in read(side, out)):  # the marker is written after the answer to EndTxn
        pass
    levels = {level: read(side, out, level=level) for level in ("read_committed", "read_uncommitted")}
    outcomes = {"epoch": epoch, "fenced": fenced, "ended": ended}
    return {**outcomes, "offsets": offsets, "other partition": read(side, out, 1), **levels}


@BOOK.case("transactions", name="too-slow")
def too_slow(side: Side) -> Any:
    """A transaction beyond its time-out is aborted by the broker; the producer gets an error and continues."""
    out = side.topic("out")
    producer = JavaProducer(java(), side.bootstrap, side.name("id"), transaction_timeout_ms="500")
    other = JavaProducer(java(), side.bootstrap, side.name("other"))
    for each in (producer, other):
        each.init()
    producer.begin()
    producer.offset_of(producer.send(out, 0, "slow"))
    other.begin()
    other.offset_of(other.send(out, 0, "quick"))
    other.end(committed=True)
    while not read(side, out):  # read_committed does not return records behind an open transaction
        pass
    late = outcome(lambda: producer.offset_of(producer.send(out, 0, "late")))
    ended = outcome(lambda: producer.end(committed=True))
    aborted = outcome(lambda: producer.end(committed=False))
    producer.begin()
    producer.offset_of(producer.send(out, 0, "again"))
    producer.end(committed=True)
    for each in (producer, other):
        each.close()
    while "again" not in [value for _, value in read(side, out)]:  # the marker is written after the answer to EndTxn
        pass
    return {"late": late, "ended": ended, "aborted": aborted, "read": [value for _, value in read(side, out)]}


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
