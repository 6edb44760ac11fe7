"""Kafka's own formatters read the coordinators' topics, with the same output for Odradek as for Kafka.

`kafka-dump-log` does the same with the files of Kafka; the console consumer needs no files.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import TIMESTAMP_MS, Stage, Wire
from compat_tests.every_version_transactions import Transactional, retrying
from compat_tests.frames import RawConnection, batch_headers, fetch, produce
from compat_tests.java_tools import run_tool
from odradek.coordinator.groups.classic.records import group_tombstone
from odradek.coordinator.partitioner import partition_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.records.builder import SimpleRecord, build_batch

FORMATTERS = "org.apache.kafka.tools.consumer"
CONTROL = 0x20
OTHER_TIMEOUT_MS = 999
OWN = {"producerId": "a producer", "previousProducerId": "-1 or another", "nextProducerId": "-1 or another"}
"""Values that each broker assigns itself."""
TIMES = {
    "commitTimestamp",
    "expireTimestamp",
    "currentStateTimestamp",
    "transactionStartTimestampMs",
    "transactionLastUpdateTimestampMs",
}
NAMES = {"memberId", "leader"}
UNORDERED = {"transactionPartitions", "partitionIds"}


def printed(bootstrap: str, topic: str, partition: int, formatter: str) -> list[Any]:
    """The formatter's output for a partition: JSON objects of the records that it supports."""
    count = str(records_in(bootstrap, topic, partition))
    arguments = ("--topic", topic, "--partition", str(partition), "--offset", "earliest", "--max-messages", count)
    result = run_tool("kafka-console-consumer", bootstrap, *arguments, "--formatter", f"{FORMATTERS}.{formatter}")
    assert result.code == 0, result
    found, text, decoder = list[Any](), result.stdout.strip(), json.JSONDecoder()
    while text:
        record, end = decoder.raw_decode(text)
        found.append(record)
        text = text[end:].lstrip()
    return found


def records_in(bootstrap: str, topic: str, partition: int) -> int:
    """The current number of records, without markers."""
    count = offset = 0
    with RawConnection(bootstrap) as connection:
        while True:
            fetched = fetch(connection, topic, partition=partition, offset=offset)
            assert fetched["error"] == "NONE", fetched
            batches = batch_headers(fetched["records"])
            count += sum(each["count"] for each in batches if not each["attributes"] & CONTROL)
            offset = batches[-1]["last_offset"] + 1 if batches else offset
            if offset >= fetched["high_watermark"]:
                return count


def plain(value: Any, name: str = "") -> Any:
    """A printed record without the values that differ between brokers."""
    if isinstance(value, dict):
        return {key: plain(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        items = [plain(inner) for inner in value]
        return sorted(items, key=repr) if name in UNORDERED else items
    if name in TIMES:
        return "a time" if value > 1_600_000_000_000 else value
    if name in NAMES and value:
        return value[:-36]  # all but the random part
    if name in OWN and value >= 0:
        return OWN[name]
    return "the broker's" if name in {"topicId", "clientHost"} else value


class Actor:
    """Runs the life of a group, which writes every kind of record of classic groups."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self.stage, self.topic = stage, topic

    def call(self, key: ApiKey, version: int, request: Any) -> Any:
        return retrying(
            lambda: self.stage.wire.call(key, version, request), lambda answer: getattr(answer, "error_code", 0)
        )

    def join(self, instance: str | None = None, member_id: str = "", protocol: str = "range") -> Any:
        request = JoinGroupRequest(
            group_id=self.stage.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=40_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=protocol, metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff"),),
        )
        joined = self.call(ApiKey.JOIN_GROUP, 5, request)
        if joined.error_code:
            assert not member_id, joined
            return self.join(instance, joined.member_id, protocol)
        return joined

    def sync(self, joined: Any, protocol: str = "range", instance: str | None = None) -> None:
        request = SyncGroupRequest(
            group_id=self.stage.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\0\1"),),
        )
        assert self.call(ApiKey.SYNC_GROUP, 5, request).error_code == 0

    def commit(self, offset: int, version: int, joined: Any = None, **fields: Any) -> None:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="a note")
        if joined is not None:
            fields |= {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
        topics = (OffsetCommitRequestTopic(name=self.topic, partitions=(part,)),)
        request = OffsetCommitRequest(group_id=self.stage.group, topics=topics, **fields)
        assert self.call(ApiKey.OFFSET_COMMIT, version, request).topics[0].partitions[0].error_code == 0

    def live(self) -> None:
        """Joins, commits, joins again as the same instance, leaves, deletes offsets and the group; then starts over."""
        first = self.join("one")
        self.sync(first, instance="one")
        self.commit(1, 8, first, group_instance_id="one")
        again = self.join("one")
        beat = HeartbeatRequest(
            group_id=self.stage.group,
            generation_id=again.generation_id,
            member_id=again.member_id,
            group_instance_id="one",
        )
        assert self.call(ApiKey.HEARTBEAT, 4, beat).error_code == 0
        self.commit(2, 2, again, retention_time_ms=60_000_000)
        identity = MemberIdentity(member_id=again.member_id, group_instance_id="one")
        left = self.call(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=self.stage.group, members=(identity,)))
        assert left.members[0].error_code == 0
        gone = OffsetDeleteRequestTopic(name=self.topic, partitions=(OffsetDeleteRequestPartition(partition_index=0),))
        deleted = self.call(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=self.stage.group, topics=(gone,)))
        assert deleted.topics[0].partitions[0].error_code == 0
        self.commit(3, 5)
        removed = self.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=(self.stage.group,)))
        assert removed.results[0].error_code == 0
        self.commit(4, 9)
        self.sync(self.join(protocol="sticky"), protocol="sticky")


def partitions_of(wire: Wire, topic: str) -> int:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    return len(wire.call(ApiKey.METADATA, 9, asked).topics[0].partitions)


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_group_records_are_printed_as_kafkas(comparison: Comparison, formatter: str) -> None:
    name = f"printed-{secrets.token_hex(3)}"

    def live(stage: Stage) -> tuple[str, int]:
        topic = stage.topic()
        stage.coordinator()
        Actor(stage, topic).live()
        return stage.group, partition_for(stage.group, partitions_of(stage.wire, "__consumer_offsets"))

    kafkas, ours = _on_both(comparison, name, live, "__consumer_offsets", formatter)
    assert len(kafkas) >= 6, kafkas
    assert dict(differences(kafkas, ours)) == {}


def test_transaction_records_are_printed_as_kafkas(comparison: Comparison) -> None:
    name = f"printed-{secrets.token_hex(3)}"

    def live(stage: Stage) -> tuple[str, int]:
        """A committed and an aborted transaction, and a new start with another time-out."""
        topic = stage.topic()
        producer = Transactional.begin(stage)
        for committed in (True, False):
            assert producer.add(3, topic, 0, 1) == [(0, 0), (1, 0)]
            assert producer.add_offsets(3).error_code == 0
            assert producer.end(3, committed).error_code == 0
        fresh = _with_time_out(stage, producer, OTHER_TIMEOUT_MS)
        assert fresh.error_code == 0, fresh
        return producer.id, partition_for(producer.id, partitions_of(stage.wire, "__transaction_state"))

    kafkas, ours = _on_both(comparison, name, live, "__transaction_state", "TransactionLogMessageFormatter")
    assert len(kafkas) >= 8, kafkas
    assert dict(differences(kafkas, ours)) == {}


def test_only_kafka_takes_records_from_clients_named_as_its_admin_client(comparison: Comparison) -> None:
    """See docs/differences.md; the record is the tombstone of a group that does not exist."""
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    tombstone = group_tombstone(f"nobody-{secrets.token_hex(3)}")
    batch = build_batch([SimpleRecord(tombstone.key, None, TIMESTAMP_MS)])
    found: dict[str, list[str]] = {}
    for broker in (comparison.kafka, comparison.odradek):
        with Wire(broker.bootstrap) as wire:
            Stage(wire, f"written-{secrets.token_hex(3)}", "1").coordinator()
        for client_id in ("anybody", "__admin_client"):
            with RawConnection(broker.bootstrap, client_id=client_id) as connection:
                answer = produce(connection, "__consumer_offsets", bytes(batch))
            found.setdefault(broker.name, []).append(answer["error"])
        _have_it_notice(broker.bootstrap)
    refused = "INVALID_TOPIC"
    assert found == {comparison.kafka.name: [refused, "NONE"], comparison.odradek.name: [refused, refused]}


def _have_it_notice(bootstrap: str) -> None:
    """Writes to the coordinator of partition 0 until it accepts.

    Kafka's coordinator notices at its next write that its log has grown: it refuses the write with NOT_COORDINATOR and
    loads again. This must not happen to the next test.
    """
    with Wire(bootstrap) as wire:
        count = partitions_of(wire, "__consumer_offsets")
        stages = (Stage(wire, f"noticing-{secrets.token_hex(3)}", "1") for _ in range(1000))
        stage = next(each for each in stages if partition_for(each.group, count) == 0)
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = (OffsetCommitRequestTopic(name=stage.topic(), partitions=(part,)),)
        request = OffsetCommitRequest(group_id=stage.group, topics=topics)
        answer = retrying(
            lambda: wire.call(ApiKey.OFFSET_COMMIT, 2, request),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
    assert answer.topics[0].partitions[0].error_code == 0, answer


def _with_time_out(stage: Stage, producer: Transactional, timeout_ms: int) -> Any:
    request = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=timeout_ms)
    return retrying(lambda: stage.wire.call(ApiKey.INIT_PRODUCER_ID, 4, request))


def _on_both(
    comparison: Comparison,
    name: str,
    live: Callable[[Stage], tuple[str, int]],
    topic: str,
    formatter: str,
) -> list[list[Any]]:
    """The records with this test's key, as printed from Kafka and from Odradek."""
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    found: list[list[Any]] = []
    for broker in (comparison.kafka, comparison.odradek):
        with Wire(broker.bootstrap) as wire:
            key, partition = live(Stage(wire, name, "1"))

        records = printed(broker.bootstrap, topic, partition, formatter)
        found.append([plain(record) for record in records if _is_about(record, key)])
    return found


def _is_about(record: Any, key: str) -> bool:
    return key in (record["key"]["data"].get("group"), record["key"]["data"].get("transactionalId"))
