"""Groups of the consumer protocol (KIP-848) with librdkafka's members."""

from __future__ import annotations

import re
from functools import partial
from types import ModuleType
from typing import Any

from compat_tests.clients import Record, librdkafka_848
from compat_tests.comparison import CaseBook, Side
from compat_tests.every_version import Wire
from compat_tests.groups import Members
from compat_tests.processes import wait_for
from compat_tests.scenarios import take_over
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.list_groups import ListGroupsRequest

NEW, OLD = "librdkafka-848", "librdkafka"
ROW = "consumer-protocol"


def crash_resume(client: ModuleType, side: Side) -> Any:
    """Committed offsets and the group itself survive kill -9 of the broker."""
    topic, group = side.topic(partitions=2), side.name("group")
    client.produce(side.bootstrap, topic, [Record(b"%02d" % n, partition=n % 2) for n in range(20)])
    first = librdkafka_848.consume_group(side.bootstrap, group, topic, 20)
    side.crash_and_restart()
    wait_for(lambda: kind_of(side, group) == ["consumer"], "the group to be loaded again")
    left = described(side, group)
    client.produce(side.bootstrap, topic, [Record(b"%02d" % n, partition=n % 2) for n in range(20, 40)])
    resumed = librdkafka_848.consume_group(side.bootstrap, group, topic, 20)
    return {"first": first, "left": left, "resumed": resumed}


def regular_expression(client: ModuleType, side: Side) -> Any:
    """The broker matches the expression, also with topics that are created later."""
    group, pattern = side.name("group"), "^" + re.escape(side.name("re-")) + "[0-9]$"
    for what in ("re-1", "re-2", "re-x", "other"):
        client.produce(side.bootstrap, side.topic(what), [Record(f"in {what}".encode())])
    first = librdkafka_848.consume_group(side.bootstrap, group, pattern, 2)
    with Members(NEW, side.bootstrap, group, pattern) as members:
        members.start("a")
        members.wait(lambda: members.assigned.get("a") == [0], "the member to be assigned partition 0")
        client.produce(side.bootstrap, side.topic("re-3"), [Record(b"in re-3")])
        members.wait(lambda: "in re-3" in members.values(), "the topic that came later")
        members.close("a")
        return {"first": first, "later": members.values(), "troubles": members.troubles}


def change_of_protocol(client: ModuleType, side: Side) -> Any:
    """A classic group gets members of the new protocol, then has only these, and changes back. All records are read."""
    topic, group = side.topic(partitions=4), side.name("group")
    seen: list[Any] = []
    old = Members(OLD, side.bootstrap, group, topic, session_ms=6000)
    new = Members(NEW, side.bootstrap, group, topic)
    with old, new:

        def settle(expected: list[int]) -> None:
            wait_for(lambda: _share(old, new) == expected, f"{expected} (now {_share(old, new)})", 60)
            number = len(seen)
            client.produce(side.bootstrap, topic, [Record(b"%d-%d" % (number, n), partition=n) for n in range(4)])
            wanted = {f"{number}-{n}" for n in range(4)}
            wait_for(lambda: wanted <= old.values() | new.values(), f"the records {wanted}", 60)
            seen.append([expected, kind_of(side, group)])

        old.start("a", worker="old-a")
        old.start("b", worker="old-b")
        settle([2, 2])
        new.start("c", worker="new-c")
        settle([1, 1, 2])
        old.close("a")
        settle([2, 2])
        old.close("b")
        settle([4])
        new.start("d", worker="new-d")
        settle([2, 2])
        old.start("e", worker="old-e")
        settle([1, 1, 2])
        new.close("c")
        settle([2, 2])
        new.close("d")
        settle([4])
        return {"steps": seen, "troubles": sorted({*old.troubles, *new.troubles})}


def _share(*groups: Members) -> list[int]:
    """The numbers of partitions of live members of both kinds, if every partition is assigned once; else nothing."""
    held = [
        part for members in groups for m, parts in members.assigned.items() if m not in members.closed for part in parts
    ]
    sizes = sorted(size for members in groups for size in members.sizes())
    return sizes if len(held) == len(set(held)) == 4 else []


def kind_of(side: Side, group: str) -> list[str]:
    """The type of the group in ListGroups."""
    found: list[str] = []
    for broker in side.bootstrap.split(","):  # each lists the groups that it coordinates
        with Wire(broker) as wire:
            listed = wire.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
        found += [each.group_type for each in listed if each.group_id == group]
    return found


def described(side: Side, group: str) -> dict[str, Any]:
    """State, and the numbers of current and target partitions of each member."""
    for broker in side.bootstrap.split(","):
        with Wire(broker) as wire:
            request = ConsumerGroupDescribeRequest(group_ids=(group,))
            (found,) = wire.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
        if found.error_code != ErrorCode.NOT_COORDINATOR:
            break
    members = [(_count(member.assignment), _count(member.target_assignment)) for member in found.members]
    return {"state": found.group_state, "assignor": found.assignor_name, "members": sorted(members)}


def _count(assignment: Any) -> int:
    return sum(len(topic.partitions) for topic in assignment.topic_partitions)


def await_members(side: Side, group: str, held: list[int], timeout_s: float = 60.0) -> dict[str, Any]:
    """Returns once the group is stable with these numbers of partitions per member."""
    wanted = sorted((count, count) for count in held)
    last: dict[str, Any] = {}

    def settled() -> bool:
        last.update(described(side, group))
        return last["state"] == "Stable" and last["members"] == wanted

    wait_for(settled, f"{group} to have {held}", timeout_s)
    return last


def add_consumer_protocol(book: CaseBook, client: ModuleType) -> None:
    """Adds the cases in one row, for clients with the protocol; `client` produces."""
    scenarios = {"crash-resume": crash_resume, "regex": regular_expression, "change-of-protocol": change_of_protocol}
    book.add(ROW, partial(take_over, client, NEW), name=ROW)
    for name, scenario in scenarios.items():
        book.add(ROW, partial(scenario, client), name=f"{ROW}-{name}")
