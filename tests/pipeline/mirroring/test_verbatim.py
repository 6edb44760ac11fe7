"""From Odradek to Odradek: the same bytes at the same offsets, for any source log."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from mirrored import Pair, batch, extent, fill, producer, raw, records, seen, transact

from odradek.gateway.cli.output import Meter
from odradek.pipeline import mirror
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.topics import sync_settings
from odradek.pipeline.mirroring.verbatim import CopyPass, Part, copy_pass
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import Imported, WireClient
from odradek.pipeline.wire_groups import WireGroups
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import end_transaction_marker
from odradek.wire.schema.types import Buffer

PART = TopicPartition("t", 0)


def copy(pair: Pair, **options) -> Report:
    report = mirror(pair.origin, pair.copy, shown=False, **options)
    assert report.complete, report.notes
    return report


def assert_same(pair: Pair, topic: str = "t", partitions: int = 1) -> None:
    for index in range(partitions):
        partition = TopicPartition(topic, index)
        assert extent(pair.copy, partition) == extent(pair.origin, partition)
        assert raw(pair.copy, partition) == raw(pair.origin, partition)
    assert seen(pair.copy, topic, partitions) == seen(pair.origin, topic, partitions)


def test_every_codec_and_transactions_are_the_same_bytes(pair: Pair) -> None:
    pair.source.create_topic("t", 3)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        fill(pair.origin, "t", 300, partitions=3, first=300 * number, compression_type=codec)
    transact(pair.origin, "t", [b"no"], commit=False)
    transact(pair.origin, "t", [b"yes"], commit=True)
    report = copy(pair)
    assert_same(pair, partitions=3)
    assert (report.read, report.written, report.details["verbatim"]) == (1502, 1502, ["t"])
    assert dict(report.skipped) == {"transaction marker": 2}


def test_the_next_run_copies_what_is_new_and_nothing_twice(pair: Pair) -> None:
    pair.source.create_topic("t")
    for run in range(3):
        fill(pair.origin, "t", 100, first=100 * run)
        assert copy(pair).written == 100
        assert copy(pair).written == 0
    assert_same(pair)


def test_gaps_and_an_open_transaction_stay_as_they_are(pair: Pair) -> None:
    pair.source.create_topic("t")
    who = {"producer_id": 77, "producer_epoch": 1}
    marker = end_transaction_marker(committed=False, coordinator_epoch=0, timestamp_ms=1, base_offset=30, **who)
    log = [
        batch(10, b"a", b"b"),
        batch(20, b"no", base_sequence=0, transactional=True, **who),
        marker,
        batch(31, b"open", base_sequence=1, transactional=True, **who),
        batch(50, b"c"),
    ]
    with WireClient(pair.origin) as client:
        assert client.import_batches({PART: b"".join(log)})[PART].error == 0
    report = copy(pair)
    assert_same(pair)
    assert [record.value for record in records(pair.copy, "t")[0]] == [b"a", b"b"]
    assert dict(report.skipped) == {"compacted at the source": 51 - 6, "transaction marker": 1}


def test_a_log_that_begins_late_begins_there_at_the_target(pair: Pair) -> None:
    pair.source.create_topic("t", 2)
    fill(pair.origin, "t", 100, partitions=2, batch_num_messages=1)
    with WireClient(pair.origin) as client:
        client.delete_records({PART: 20, TopicPartition("t", 1): 50})
    copy(pair)
    assert_same(pair, partitions=2)
    assert extent(pair.copy, TopicPartition("t", 1)) == (50, 50)
    fill(pair.origin, "t", 10, partitions=2)
    copy(pair)
    assert_same(pair, partitions=2)


def test_what_the_source_deletes_before_it_is_copied_is_told(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 10, batch_num_messages=1)
    copy(pair)
    fill(pair.origin, "t", 10, first=10, batch_num_messages=1)
    with WireClient(pair.origin) as client:
        client.delete_records({PART: 15})
    report = copy(pair)
    assert (report.written, dict(report.skipped)) == (5, {"deleted at the source": 5})
    assert [offset for offset, _ in seen(pair.copy, "t")[0]] == [*range(10), *range(15, 20)]
    with WireClient(pair.origin) as client:
        client.delete_records({PART: 20})
    fill(pair.origin, "t", 1)
    with WireClient(pair.origin) as client:
        client.delete_records({PART: 21})
    assert dict(copy(pair).skipped) == {"deleted at the source": 1}
    assert extent(pair.copy, PART) == (0, 21)


def test_topics_come_with_their_partitions_and_settings(pair: Pair) -> None:
    pair.source.create_topic("orders", 3, {"cleanup.policy": "compact", "segment.bytes": 2_000_000})
    pair.source.create_topic("other", 2)
    copy(pair, topics="ord.*")
    with Cluster(pair.copy) as there:
        assert {name: n for name, n in there.topics().items() if not name.startswith("__")} == {"orders": 3}
        assert there.topic_config("orders") == {"cleanup.policy": "compact", "segment.bytes": "2000000"}
    admin = AdminClient(pair.origin.for_librdkafka())
    admin.create_partitions([NewPartitions("orders", 5)])["orders"].result()
    with_partitions = producer(pair.origin)
    with_partitions.produce("orders", b"v", key=b"k", partition=4)
    with_partitions.flush()
    copy(pair, topics="orders|other")
    with Cluster(pair.copy) as there:
        assert {name: n for name, n in there.topics().items() if not name.startswith("__")} == {"orders": 5, "other": 2}
    assert_same(pair, "orders", 5)


def test_settings_of_topics_that_exist_are_kept_in_step(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    def config(connection: Connection) -> dict[str, str | None]:
        with Cluster(connection) as cluster:
            return cluster.topic_config("t")

    pair.source.create_topic("t", 1, {"cleanup.policy": "compact", "max.message.bytes": 5_000_000})
    pair.target.create_topic("t", 1, {"segment.bytes": 2_000_000, "min.insync.replicas": 1})
    copied = mirror(pair.origin, pair.copy)
    assert copied.complete
    kept = {"cleanup.policy": "compact", "max.message.bytes": "5000000", "min.insync.replicas": "1"}
    assert config(pair.copy) == kept
    said = "topic 't' takes the source's settings: cleanup.policy=compact, max.message.bytes=5000000, segment.bytes\n"
    assert said in capsys.readouterr().err
    with Cluster(pair.origin) as cluster:
        cluster.alter_topic_config("t", {"cleanup.policy": None, "max.message.bytes": "6000000"})
    copy(pair, append=True)
    assert config(pair.copy) == kept
    copy(pair)
    assert config(pair.copy) == {"max.message.bytes": "6000000", "min.insync.replicas": "1"}


def test_settings_that_the_target_refuses_are_reported(pair: Pair) -> None:
    class Refusing(Cluster):
        def alter_topic_config(self, topic: str, settings: Mapping[str, str | None]) -> None:
            raise PipelineError(f"{topic} has a policy")

    pair.source.create_topic("t", 1, {"max.message.bytes": 5_000_000})
    pair.target.create_topic("t")
    with Cluster(pair.origin) as source, Refusing(pair.copy) as target:
        assert sync_settings(source, target, ["t", "elsewhere"]) == [
            "topic 't' does not take the source's settings max.message.bytes=5000000: t has a policy"
        ]


def test_metadata_of_committed_offsets_are_copied(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 20)
    with WireClient(pair.origin) as source, WireClient(pair.copy) as target:
        WireGroups(source).commit("g", {PART: 7}, {PART: "as far as the 7th"})
        copy(pair, groups="g")
        assert WireGroups(target).committed_whole("g") == {PART: (7, "as far as the 7th")}


@pytest.mark.parametrize("option", ["topics", "groups"])
def test_an_invalid_regular_expression_is_reported(pair: Pair, option: str) -> None:
    with pytest.raises(PipelineError, match=f"--{option} '\\[' is no regular expression"):
        copy(pair, **{option: "["})


# Logs that differ from the source


def test_records_of_others_are_not_mixed_with_the_source_s(pair: Pair) -> None:
    for broker, connection, value in ((pair.source, pair.origin, b"s"), (pair.target, pair.copy, b"t")):
        broker.create_topic("t")
        filler = producer(connection)
        filler.produce("t", value * 2)
        filler.flush()
    with pytest.raises(PipelineError, match="t-0 at the target holds records that are not the source's"):
        copy(pair)
    assert copy(pair, append=True).details["renumbered"] == ["t"]
    assert [record.value for record in records(pair.copy, "t")[0]] == [b"tt", b"ss"]
    assert copy(pair).written == 0


def test_a_log_that_others_write_to_after_the_first_run_is_copied_to_no_longer(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 10)
    copy(pair)
    fill(pair.copy, "t", 1, first=500)
    fill(pair.origin, "t", 10, first=10)
    with pytest.raises(PipelineError, match="are not the source's"):
        copy(pair)


def test_a_copy_that_was_killed_before_its_report_is_recognised_by_its_last_batch(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 10, batch_num_messages=1)
    copy(pair)
    fill(pair.origin, "t", 10, first=10, batch_num_messages=1)
    with WireClient(pair.origin) as source, WireClient(pair.copy) as target:
        left = source.fetch({PART: 10}, max_bytes=1 << 20, partition_max_bytes=1 << 20)[PART].records
        first = next(iter_headers(left))
        assert target.import_batches({PART: left[: first.end_position]})[PART].log_end_offset == 11
    assert copy(pair).written == 9
    assert_same(pair)


# Groups


def test_offsets_are_copied_as_they_are_and_never_moved_back(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 20)
    with WireClient(pair.origin) as source, WireClient(pair.copy) as target:
        here, there = WireGroups(source), WireGroups(target)
        here.commit("g", {PART: 7})
        here.commit("ahead", {PART: 3})
        here.commit("unwanted", {PART: 3})
        report = copy(pair, groups="g|ahead")
        assert there.committed("g") == {PART: 7}
        assert there.committed("unwanted") == {}
        assert report.details["groups"]["g"] == [{"topic": "t", "partition": 0, "offset": 7}]
        there.commit("ahead", {PART: 15})
        here.commit("g", {PART: 9})
        copy(pair, groups=".*")
        assert (there.committed("g"), there.committed("ahead")) == ({PART: 9}, {PART: 15})


def test_a_group_with_members_at_the_target_is_left_alone(pair: Pair) -> None:
    from confluent_kafka import Consumer

    pair.source.create_topic("t")
    fill(pair.origin, "t", 20)
    copy(pair)
    member = Consumer({**pair.copy.for_librdkafka(), "group.id": "g", "auto.offset.reset": "earliest"})
    member.subscribe(["t"])
    assert member.poll(30) is not None
    with WireClient(pair.origin) as source:
        WireGroups(source).commit("g", {PART: 7})
    report = copy(pair, groups="g")
    member.close()
    assert report.notes == ["group 'g' is not copied: it has members at the target"]


# A target with a full disk


class Full(WireClient):
    """A target whose disk is full for a few requests."""

    refusals = 3

    def import_batches(
        self, records: Mapping[TopicPartition, Buffer], timeout_ms: int | None = None
    ) -> dict[TopicPartition, Imported]:
        if not self.refusals:
            return super().import_batches(records, timeout_ms)
        self.refusals -= 1
        return {partition: Imported(ErrorCode.KAFKA_STORAGE_ERROR, None, -1) for partition in records}


class Silent(Meter):
    def advance(self, records: int, size_bytes: int) -> None:
        pass


def copy_to_full(pair: Pair, refusals: int, retry_limit_s: float) -> list[str]:
    """Copies ten records; returns the notes."""
    notes: list[str] = []
    pair.source.create_topic("t")
    pair.target.create_topic("t")
    fill(pair.origin, "t", 10)
    part = Part(PartitionReport("t", 0, 0, 0), 0, 10, is_empty=True)
    with Full(pair.copy) as target:
        target.refusals = refusals
        copy_pass(pair.origin, target, CopyPass({PART: part}, lambda: False, Silent(), notes.append, retry_limit_s))
    return notes


def test_a_full_target_is_retried_and_reported_once(pair: Pair) -> None:
    expected = "the target takes nothing at the moment, trying again: t-0: KAFKA_STORAGE_ERROR"
    assert copy_to_full(pair, refusals=3, retry_limit_s=60) == [expected]
    assert_same(pair)


def test_a_target_that_stays_full_ends_the_run(pair: Pair) -> None:
    with pytest.raises(PipelineError, match="the target takes nothing: t-0: KAFKA_STORAGE_ERROR"):
        copy_to_full(pair, refusals=10**6, retry_limit_s=0.2)
    assert extent(pair.copy, PART) == (0, 0)


# Continuing while the source changes


class Following:
    """A continuous mirror in a thread."""

    def __init__(self, pair: Pair, **options) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(pair,), kwargs=options)
        self.report: Report | None = None
        self._error: Exception | None = None
        self._thread.start()

    def _run(self, pair: Pair, **options) -> None:
        try:
            self.report = mirror(
                pair.origin, pair.copy, continuous=True, stopping=self._stop.is_set, shown=False, **options
            )
        except Exception as error:  # noqa: BLE001 - raised in the test's thread
            self._error = error

    def stop(self) -> Report:
        self._stop.set()
        self._thread.join(60)
        if self._error is not None:
            raise self._error
        assert self.report is not None
        return self.report


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it does not come to hold")


def has_end(pair: Pair, end: int, topic: str = "t") -> Callable[[], bool]:
    def holds() -> bool:
        try:
            return extent(pair.copy, TopicPartition(topic, 0))[1] == end
        except PipelineError:
            return False

    return holds


def test_a_continuous_mirror_follows_new_records_and_topics_through_restarts(pair: Pair) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 50)
    following = Following(pair)
    try:
        until(has_end(pair, 50))
        fill(pair.origin, "t", 50, first=50)
        until(has_end(pair, 100))
        pair.target.stop()
        fill(pair.origin, "t", 50, first=100)
        pair.target.start()
        until(has_end(pair, 150))
        pair.source.stop()
        pair.source.start()
        pair.source.create_topic("new")
        fill(pair.origin, "new", 10)
        until(has_end(pair, 10, "new"))
    finally:
        report = following.stop()
    assert report.complete
    assert report.written == 160
    assert_same(pair)
    assert_same(pair, "new")


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_meanwhile_is_reported(pair: Pair, again: bool) -> None:
    for name in ("t", "kept"):
        pair.source.create_topic(name)
        fill(pair.origin, name, 50)
    following = Following(pair)
    until(has_end(pair, 50))
    until(has_end(pair, 50, "kept"))
    admin = AdminClient(pair.origin.for_librdkafka())
    admin.delete_topics(["t"])["t"].result()
    if again:
        pair.source.create_topic("t")
        fill(pair.origin, "t", 60)
    fill(pair.origin, "kept", 50)
    until(has_end(pair, 100, "kept"))
    fill(pair.origin, "kept", 50)
    until(has_end(pair, 150, "kept"))
    report = following.stop()
    assert not report.complete
    assert [line for line in report.notes if "'t' was not copied to its end" in line]
    assert extent(pair.copy, PART) == (0, 50)


def test_settings_of_the_source_may_change_the_log_meanwhile(pair: Pair) -> None:
    """A log is continued after compaction has rewritten the end that was copied."""
    pair.source.create_topic("t", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01})
    with WireClient(pair.origin) as client:
        client.import_batches({PART: batch(0, b"a", b"b")})
        copy(pair)
        client.import_batches({PART: batch(2, b"c")})
    assert copy(pair).written == 1
    admin = AdminClient(pair.origin.for_librdkafka())
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    [answer] = admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])]
    ).values()
    answer.result()
    assert copy(pair).written == 0
