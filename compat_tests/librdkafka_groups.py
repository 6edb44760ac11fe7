"""Static members and cooperative rebalancing with librdkafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.comparison import CaseBook, Side
from compat_tests.raw_groups import describe_group

WAIT_LIMIT_S = 60.0
PARTITIONS = 4


class Member:
    """A consumer with its assignment and its events. It makes progress only in `poll`."""

    def __init__(self, side: Side, topic: str, **settings: str) -> None:
        self.held: set[int] = set()
        self.taken: list[int] = []
        self.errors: list[str] = []
        self._incremental = settings.get("partition_assignment_strategy") == "cooperative-sticky"
        self._consumer = Consumer(
            {
                "bootstrap.servers": side.bootstrap,
                "group.id": side.name("group"),
                "session.timeout.ms": "30000",
                "heartbeat.interval.ms": "200",
                "auto.offset.reset": "earliest",
                "log_level": "0",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = {each.partition for each in partitions}
        self.held = self.held | numbers if self._incremental else numbers

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.taken.append(len(partitions))
        self.held -= {each.partition for each in partitions}

    def poll(self) -> None:
        message = self._consumer.poll(0.05)
        error = None if message is None else message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public constant
            self.errors.append(error.name())

    def close(self) -> None:
        self._consumer.close()


def until(condition: Callable[[], bool], *members: Member) -> None:
    """Polls the members in turn until the condition holds."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, [(each.held, each.taken, each.errors) for each in members]
        for each in members:
            each.poll()


def static_members(side: Side) -> Any:
    """A static member gets its partitions back, without a rebalance of the other one; then a duplicate fences it."""
    topic = side.topic(partitions=PARTITIONS)
    first, other = (Member(side, topic, group_instance_id=name) for name in ("first", "other"))
    until(lambda: len(first.held) == len(other.held) == 2, first, other)
    held, before = first.held, list(other.taken)
    first.close()
    away = describe_group(side.bootstrap, side.name("group"))
    again = Member(side, topic, group_instance_id="first")
    until(lambda: len(again.held) == 2, again, other)
    found = {
        "while away": [away["state"], away["held"]],
        "the same partitions": again.held == held,
        "the other was left alone": other.taken == before,
        "errors": [again.errors, other.errors],
    }
    twin = Member(side, topic, group_instance_id="first")
    until(lambda: bool(again.errors) and len(twin.held) == 2, twin, again, other)
    found["fenced"] = sorted(set(again.errors))
    for each in (again, twin, other):
        each.close()
    return found


def cooperative_rebalancing(side: Side) -> Any:
    """A member with all partitions gives up half of them to a second one, keeps the rest, and gets the half back."""
    topic = side.topic(partitions=PARTITIONS)
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Member(side, topic, **strategy)
    until(lambda: len(first.held) == PARTITIONS, first)
    second = Member(side, topic, **strategy)
    until(lambda: len(first.held) == len(second.held) == 2, first, second)
    shared = describe_group(side.bootstrap, side.name("group"))
    given_up = list(first.taken)
    second.close()
    until(lambda: len(first.held) == PARTITIONS, first)
    found = {
        "protocol": shared["protocol"],
        "given up": given_up,
        "given up later": first.taken[len(given_up) :],
        "errors": [first.errors, second.errors],
    }
    first.close()
    return found


def add_groups(book: CaseBook) -> None:
    """Adds both scenarios, in the row of rebalances."""
    book.add("concurrent-rebalances", static_members, name="static-members")
    book.add("concurrent-rebalances", cooperative_rebalancing, name="cooperative-rebalancing")
