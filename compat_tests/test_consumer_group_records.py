"""The records of a consumer group in `__consumer_offsets` are those that Kafka writes, one by one."""

from __future__ import annotations

import secrets
import time
from itertools import groupby
from typing import Any

import pytest

from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import Stage, Wire
from compat_tests.every_version_consumer_groups import LEAVE, LEAVE_FOR_A_WHILE, ClassicMember, Group
from odradek.coordinator.partitioner import partition_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import read_records
from odradek.wire.schema.schema import Struct
from odradek.wire.stored.framing import decode_key, decode_value, group_key_types, group_value_types

OFFSETS = "__consumer_offsets"
OWN = {"metadata_hash", "client_host", "version"}
"""Fields that each broker computes or counts itself: only whether they are set is compared."""


def live(group: Group) -> None:
    """Members join and leave, also static ones and a classic one; an expression is resolved."""
    epoch = group.join("a", rack_id="r", server_assignor="range")["epoch"]
    group.beat("a", epoch)
    group.join("b")
    group.beat("a", epoch, owns=group.held("a"))
    group.beat("a", epoch, owns=group.held("a"))
    group.beat("b", epoch + 1)
    group.beat("b", LEAVE)
    epoch = group.beat("a", epoch + 1, owns=group.held("a"))["epoch"]
    group.beat("a", LEAVE)
    epoch = group.join("s", instance_id="i")["epoch"]
    group.beat("s", LEAVE_FOR_A_WHILE, instance_id="i")
    epoch = group.join("s2", instance_id="i")["epoch"]
    group.beat("s2", LEAVE, instance_id="i")
    pattern = f"{group.stage.name}-r.*"
    epoch = group.join("x", subscribed_topic_names=None, subscribed_topic_regex=pattern)["epoch"]
    while group.beat("x", epoch)["epoch"] == epoch:
        time.sleep(0.05)
    group.beat("x", LEAVE)
    classic = ClassicMember(group)
    classic.join()
    classic.join()
    classic.sync(range(4))
    epoch = group.join("n")["epoch"]
    classic.join()
    group.beat("n", epoch)
    group.beat("n", LEAVE)
    classic.join()
    classic.sync(range(4))
    classic.leave()
    epoch = group.join("last")["epoch"]
    group.beat("last", LEAVE)
    assert group.delete() == "NONE"


def records(wire: Wire, group: str) -> list[Any]:
    """Every record of the group, in the order of the log."""
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=OFFSETS),), allow_auto_topic_creation=False)
    count = len(wire.call(ApiKey.METADATA, 9, asked).topics[0].partitions)
    partition, offset, found = partition_for(group, count), 0, list[Any]()
    while True:
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=10, min_bytes=0, max_bytes=1 << 24, topics=(FetchTopic(topic=OFFSETS, partitions=(part,)),)
        )
        (answer,) = wire.call(ApiKey.FETCH, 12, request).responses[0].partitions
        data = memoryview(bytes(answer.records or b""))
        for header in iter_headers(data):
            offset = header.next_offset
            for record in [] if header.is_control else read_records(data, header):
                found.append((decode_key(record.key, group_key_types()), record.value))
        if offset >= answer.high_watermark:
            break
    return [(key, value) for key, value in found if getattr(key, "group_id", getattr(key, "group", None)) == group]


def shown(key: Any, value: bytes | None, names: dict[str, str]) -> Any:
    kind = type(key).__message__.api_key
    where = {field.name: plain(getattr(key, field.name), field.name, names) for field in type(key).__fields__}
    shown_records = None if value is None else plain(decode_value(group_value_types()[kind], value), "", names)
    return [kind, where, shown_records]


def in_order(shown_records: list[Any]) -> list[Any]:
    """Sorts consecutive records of one kind by member, since Kafka writes them in hash order. The sort is stable."""
    ordered: list[Any] = []
    for _, run in groupby(shown_records, key=lambda each: (each[0], each[2] is None)):
        ordered += sorted(run, key=lambda each: str(each[1]))
    return ordered


def plain(value: Any, name: str, names: dict[str, str]) -> Any:
    """A record without values that differ between brokers; partitions by number, since the assignor chooses which."""
    if isinstance(value, Struct):
        return {f.name: plain(getattr(value, f.name), f.name, names) for f in type(value).__fields__}
    if name == "partitions":
        return len(value)
    if name == "assignment_epochs":
        return sorted(value)
    if isinstance(value, tuple):
        return [plain(each, name, names) for each in value]
    if isinstance(value, memoryview | bytes):
        return len(value)
    if name in OWN or "timestamp" in name:
        return "set" if value else value
    if name == "topic_id":
        return "the topic's"
    if name in {"member_id", "leader"} and value is not None:
        return names.setdefault(value, value if len(value) < 10 else f"made up {len(names)}")
    return value


def test_the_records_of_a_group_are_kafkas(comparison: Comparison) -> None:
    name = f"records-{secrets.token_hex(3)}"
    observed: list[list[Any]] = []
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    for broker in (comparison.kafka, comparison.odradek):
        with Wire(broker.bootstrap) as wire:
            group = Group(Stage(wire, name, "1"), 1)
            live(group)
            names: dict[str, str] = {}
            shown_records = [shown(key, value, names) for key, value in records(wire, group.stage.group)]
            observed.append(in_order(shown_records))
    kafkas, ours = observed
    kinds = [[(kind, shown_records is None) for kind, _, shown_records in each] for each in observed]
    assert kinds[1] == kinds[0], "the kinds of records and which are tombstones, in order"
    found = dict(differences(kafkas, ours))
    only = [(path.rpartition(".")[2], pair[1]) for path, pair in found.items()]
    assert only == [("leader", None)], f"docs/differences.md: the record of the downgrade has no leader; found {found}"
