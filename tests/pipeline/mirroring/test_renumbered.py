"""Copying with an offset map to an Odradek whose topic has other records already, as to a Kafka."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from mirrored import Pair, fill, records, transact

from odradek.gateway.cli.output import Meter
from odradek.pipeline import mirror
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring import offset_map, renumbered
from odradek.pipeline.mirroring.batches import chunk_of
from odradek.pipeline.mirroring.renumbered import copy_topic
from odradek.pipeline.mirroring.verbatim import CopyPass, Part
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient

PART = TopicPartition("t", 0)


@pytest.fixture
def pair(pair: Pair) -> Pair:
    """The target's topic has another record already."""
    pair.source.create_topic("t")
    pair.target.create_topic("t")
    fill(pair.copy, "t", 1, first=999)
    return pair


def copy(pair: Pair, **options) -> Report:
    return mirror(pair.origin, pair.copy, append=True, shown=False, **options)


def assert_same(pair: Pair) -> None:
    assert records(pair.copy, "t")[0][1:] == records(pair.origin, "t")[0]


def test_each_committed_record_comes_once(pair: Pair) -> None:
    for run in range(3):
        fill(pair.origin, "t", 100, first=100 * run)
        transact(pair.origin, "t", [b"no"], commit=False)
        transact(pair.origin, "t", [b"yes"], commit=True)
        report = copy(pair)
        assert (report.complete, report.written) == (True, 101)
        assert dict(report.skipped) == {"marker, aborted or compacted at the source": 3}
        assert copy(pair).written == 0
    assert_same(pair)


def test_what_the_source_deletes_before_it_is_copied_is_told(pair: Pair) -> None:
    fill(pair.origin, "t", 10, batch_num_messages=1)
    copy(pair)
    fill(pair.origin, "t", 10, first=10, batch_num_messages=1)
    with WireClient(pair.origin) as client:
        client.delete_records({PART: 15})
    report = copy(pair)
    assert (report.complete, report.written) == (True, 5)
    assert dict(report.skipped) == {"deleted at the source": 5}
    assert [one.headers for one in records(pair.copy, "t")[0][11:]] == [
        one.headers for one in records(pair.origin, "t")[0]
    ]


def test_old_entries_of_the_map_are_dropped_and_not_guessed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renumbered, "MAX_ENTRIES", 2)
    for run in range(4):
        fill(pair.origin, "t", 10, first=10 * run)
        copy(pair)
    with WireClient(pair.origin) as client, Cluster(pair.copy) as there:
        client.topics(())
        known = offset_map.read_maps(there, client.cluster_id)[PART]
    assert [entry.source_from for entry in known.entries] == [20, 30]
    assert known.translate(19) is None
    assert known.next_offset == 40


class Silent(Meter):
    def advance(self, records: int, size_bytes: int) -> None:
        pass


class Meanwhile:
    """Runs `act` once, when a copy has begun and first checks whether to stop; it does not stop."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self._act = act
        self._asked = False

    def __call__(self) -> bool:
        if not self._asked:
            self._asked = True
            self._act()
        return False


def pass_of(
    end: int, stopping: Callable[[], bool] | None = None, note: Callable[[str], None] = lambda _: None
) -> CopyPass:
    part = Part(PartitionReport("t", 0, 0, 0), 0, end)
    return CopyPass({PART: part}, stopping or Meanwhile(), Silent(), note, 20.0)


def test_a_second_mirror_ends_the_first(pair: Pair) -> None:
    fill(pair.origin, "t", 10)
    with Cluster(pair.copy) as there:
        second = Meanwhile(lambda: copy_topic(pair.origin, there, "c", "t", pass_of(10)))
        with pytest.raises(PipelineError, match="another mirror copies topic 't'"):
            copy_topic(pair.origin, there, "c", "t", pass_of(10, second))
    assert_same(pair)


def test_a_deleted_topic_is_reported(pair: Pair) -> None:
    fill(pair.origin, "t", 10)
    admin = AdminClient(pair.origin.for_librdkafka())
    admin.delete_topics(["t"])["t"].result()
    copied = pass_of(10)
    with Cluster(pair.copy) as there:
        assert copy_topic(pair.origin, there, "c", "t", copied) == {}
    assert copied.gone.keys() == {"t"}


def test_what_the_target_will_never_take_ends_it(pair: Pair) -> None:
    fill(pair.origin, "t", 10)
    admin = AdminClient(pair.copy.for_librdkafka())
    small = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
    [changed] = admin.incremental_alter_configs([ConfigResource("topic", "t", incremental_configs=[small])]).values()
    changed.result()
    with Cluster(pair.copy) as there, pytest.raises(PipelineError, match="refuses a record of topic 't'"):
        copy_topic(pair.origin, there, "c", "t", pass_of(10))


def test_what_passes_is_tried_again(pair: Pair) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))

    fill(pair.origin, "t", 10)
    notes: list[str] = []
    with Cluster(pair.copy) as there:
        maps = copy_topic(pair.origin, there, "c", "t", pass_of(10, Meanwhile(fail), notes.append))
    assert maps[PART].next_offset == 10
    assert ["beginning again behind what is committed" in note for note in notes] == [True]
    assert_same(pair)


def test_bytes_that_are_no_batches_are_not_copied() -> None:
    with pytest.raises(PipelineError, match="cannot be copied: message format v1"):
        chunk_of(memoryview(bytes(16) + b"\1" + bytes(60)), 0)
