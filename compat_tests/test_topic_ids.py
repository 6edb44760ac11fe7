"""Fetch sessions and topic ids, request by request: the same sequences on both brokers must be answered the same."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import TIMESTAMP_MS, Stage, Wire
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch

NO_TOPIC = UUID(int=0x77)
BY_NAME, BY_ID, NEWEST = 12, 13, 18
LARGE = b"x" * 2000


class Bench:
    """A connection with helpers of the scripts: ids of topics, and fetches as plain data."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire, self.name = wire, name
        self.stage = Stage(wire, name, "1")
        self._labels: dict[UUID | str, str] = {UUID(int=0): "zero", NO_TOPIC: "no topic"}

    def topic(self, suffix: str = "", partitions: int = 2) -> UUID:
        """Creates a topic, whose id and name are shown as `suffix`; a second topic's id is marked as such."""
        name = self.stage.topic(suffix, partitions)
        topic_id = self.id_of(name)
        earlier = [label for topic, label in self._labels.items() if isinstance(topic, UUID)]
        self._labels[name] = suffix
        self._labels[topic_id] = f"{suffix} again" if suffix in earlier else suffix
        return topic_id

    def full_name(self, suffix: str) -> str:
        return f"{self.name}{suffix}"

    def id_of(self, name: str) -> UUID:
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        return self.wire.call(ApiKey.METADATA, 12, asked).topics[0].topic_id

    def delete(self, suffix: str) -> None:
        """Deletes a topic, and waits until every node has noticed: coordinators check ids, too."""
        name = self.full_name(suffix)
        answer = self.wire.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=(name,), timeout_ms=9000))
        assert answer.responses[0].error_code == 0, answer
        part = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=(part,)),))

        def is_gone() -> bool:
            answers = self.wire.call_all(ApiKey.LIST_OFFSETS, 7, request)
            errors = {answer.topics[0].partitions[0].error_code for answer in answers}
            return errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

        wait_for(is_gone, f"{name} to be deleted")

    def produce(
        self, topic: UUID | str, *values: bytes, partition: int = 0, version: int | None = None, acks: int = -1
    ) -> Any:
        batch = build_batch([SimpleRecord(b"k", value, TIMESTAMP_MS) for value in values or (b"v",)])
        parts = (PartitionProduceData(index=partition, records=memoryview(batch)),)
        by_id = isinstance(topic, UUID)
        data = TopicProduceData(topic_id=topic, partition_data=parts) if by_id else None
        data = data or TopicProduceData(name=self.full_name(str(topic)), partition_data=parts)
        version = version or (13 if by_id else 11)
        answer = self.wire.call(ApiKey.PRODUCE, version, ProduceRequest(acks=acks, timeout_ms=9000, topic_data=(data,)))
        [answered] = answer.responses
        [part] = answered.partition_responses
        who = self.label(answered.topic_id if version >= 13 else answered.name)
        return who, ErrorCode(part.error_code).name, part.base_offset, part.current_leader.leader_id

    def label(self, topic: UUID | str) -> str:
        return self._labels.get(topic, str(topic))

    def fetch(
        self,
        *wanted: tuple[UUID | str, int, int],
        session: tuple[int, int] = (0, -1),
        forget: tuple[tuple[UUID | str, int], ...] = (),
        version: int = NEWEST,
        max_bytes: int = 1 << 20,
        wait_ms: int = 0,
        current_leader_epoch: int = -1,
    ) -> tuple[int, Any]:
        """Fetches (topic, partition, offset)s; returns the session id and the values to compare."""
        topics = [
            FetchTopic(
                **self._named(topic),
                partitions=(
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=1 << 20,
                        current_leader_epoch=current_leader_epoch,
                    ),
                ),
            )
            for topic, index, offset in wanted
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=session[0],
            session_epoch=session[1],
            topics=tuple(topics),
            forgotten_topics_data=tuple(
                [ForgottenTopic(**self._named(topic), partitions=(index,)) for topic, index in forget]
            ),
        )
        answer = self.wire.call(ApiKey.FETCH, version, request)
        return answer.session_id, self._seen(answer, version)

    def _named(self, topic: UUID | str) -> dict[str, Any]:
        return {"topic_id": topic} if isinstance(topic, UUID) else {"topic": self.full_name(topic)}

    def _seen(self, answer: FetchResponse, version: int) -> Any:
        topics = [
            (
                self.label(topic.topic_id if version >= BY_ID else topic.topic),
                [
                    (
                        part.partition_index,
                        ErrorCode(part.error_code).name,
                        (part.high_watermark, part.last_stable_offset, part.log_start_offset),
                        part.aborted_transactions,
                        [header.base_offset for header in iter_headers(memoryview(bytes(part.records or b"")))],
                        (part.current_leader.leader_id, part.current_leader.leader_epoch),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in answer.responses
        ]
        nodes = [(node.node_id, bool(node.host), bool(node.port), node.rack) for node in answer.node_endpoints]
        return ErrorCode(answer.error_code).name, answer.session_id > 0, topics, nodes


Scenario = Callable[[Bench], Iterator[Any]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


@scenario
def the_life_of_a_session(bench: Bench) -> Iterator[Any]:
    """Created, used, refused, forgotten in parts, and ended by forgetting all."""
    one, two = bench.topic("one"), bench.topic("two")
    bench.produce(one)
    session, seen = bench.fetch((one, 0, 0), (two, 0, 0), (two, 1, 0), session=(0, 0))
    yield seen
    yield bench.fetch(session=(session, 1))[1]  # not acknowledged by the offset: the same records come again
    yield bench.fetch((one, 0, 1), session=(session, 2))[1]
    yield bench.fetch(session=(session, 3))[1]
    bench.produce(two, partition=1)
    yield bench.fetch(session=(session, 4))[1]
    yield bench.fetch(session=(session, 4))[1]  # a repeated epoch
    yield bench.fetch(session=(session, 9))[1]  # an epoch in the future
    yield bench.fetch((two, 1, 1), session=(session, 5))[1]  # the refusals changed nothing
    yield bench.fetch(session=(session, 6), forget=((two, 1), (two, 0)))[1]
    bench.produce(two, partition=1)
    yield bench.fetch(session=(session, 7))[1]
    yield bench.fetch((two, 1, 1), session=(session, 8), forget=((two, 1),))[1]  # listed and forgotten at once
    yield bench.fetch(session=(session, 9), forget=((two, 7), (NO_TOPIC, 0)))[1]
    yield bench.fetch(session=(session, 10), forget=((one, 0),))[1]  # nothing left
    yield bench.fetch((one, 0, 0), session=(session, 11))[1]


@scenario
def sessions_end_with_a_full_fetch(bench: Bench) -> Iterator[Any]:
    """A full fetch with the session's id: with the initial epoch a new session begins, with the final epoch none."""
    one = bench.topic("one")
    bench.produce(one)
    first, seen = bench.fetch((one, 0, 0), session=(0, 0))
    yield seen
    second, seen = bench.fetch((one, 0, 0), session=(first, 0))
    yield seen, first != second
    yield bench.fetch(session=(first, 1))[1]
    yield bench.fetch(session=(second, 1))[1]
    yield bench.fetch((one, 0, 0), session=(second, -1))[1]
    yield bench.fetch(session=(second, 2))[1]
    yield bench.fetch((one, 0, 0), session=(12345, -1))[1]
    yield bench.fetch((one, 0, 0), session=(12345, 0))[1]


@scenario
def sessions_that_never_were(bench: Bench) -> Iterator[Any]:
    one = bench.topic("one")
    for session in ((0, 1), (0, 7), (12345, 1), (-5, 1), (1, -7), (0, -7)):
        yield session, bench.fetch((one, 0, 0), session=session)[1]


@scenario
def an_empty_session(bench: Bench) -> Iterator[Any]:
    """A full fetch of nothing also creates a session."""
    one = bench.topic("one")
    session, seen = bench.fetch(session=(0, 0))
    yield seen
    yield bench.fetch((one, 0, 0), session=(session, 1))[1]
    yield bench.fetch(session=(session, 2))[1]
    empty, seen = bench.fetch(session=(0, 0))
    yield seen
    yield bench.fetch(session=(empty, 1))[1]
    yield bench.fetch(session=(empty, 2))[1]


@scenario
def a_session_is_by_id_or_by_name(bench: Bench) -> Iterator[Any]:
    one = bench.topic("one")
    by_id, seen = bench.fetch((one, 0, 0), session=(0, 0))
    yield seen
    by_name, seen = bench.fetch(("one", 0, 0), session=(0, 0), version=BY_NAME)
    yield seen
    yield bench.fetch(session=(by_id, 1), version=BY_NAME)[1]
    yield bench.fetch(session=(by_name, 1), version=BY_ID)[1]
    yield bench.fetch(session=(by_id, 1), version=BY_ID)[1]
    yield bench.fetch(session=(by_name, 1), version=7)[1]
    yield bench.fetch(session=(by_name, 2), version=BY_NAME)[1]
    yield bench.fetch(session=(by_id, 2), version=NEWEST)[1]


@scenario
def partitions_that_gave_records_go_to_the_end(bench: Bench) -> Iterator[Any]:
    """So that the others are served next if the byte limit does not suffice for all."""
    wide = bench.topic("wide", 4)
    for partition in range(4):
        for _ in range(2):
            bench.produce(wide, LARGE, partition=partition)
    session, seen = bench.fetch(*[(wide, n, 0) for n in range(4)], session=(0, 0), max_bytes=1)
    yield seen
    for epoch in range(1, 7):
        yield bench.fetch(session=(session, epoch), max_bytes=1)[1]
    yield bench.fetch((wide, 2, 1), (wide, 0, 2), session=(session, 7), max_bytes=1)[1]
    yield bench.fetch(session=(session, 8))[1]
    yield bench.fetch((wide, 3, 1), session=(session, 9), max_bytes=1)[1]
    yield bench.fetch(session=(session, 10))[1]


@scenario
def what_is_not_there_stands_last(bench: Bench) -> Iterator[Any]:
    one, two = bench.topic("one"), bench.topic("two")
    bench.produce(one)
    wanted = [(NO_TOPIC, 0, 0), (one, 9, 0), (one, 0, 0), (one, 0, 0), (NO_TOPIC, 1, 0), (two, 0, 5), (one, 1, 0)]
    yield bench.fetch(*wanted, wait_ms=50)[1]
    session, seen = bench.fetch(*wanted, session=(0, 0), wait_ms=50)
    yield seen
    yield bench.fetch(session=(session, 1), wait_ms=50)[1]
    named = [("no topic", 0, 0), ("one", 9, 0), ("one", 0, 0), ("two", 0, 5), ("one", 1, 0)]
    for version in (4, 6, 7, 11, BY_NAME):
        yield bench.fetch(*named, version=version, wait_ms=50)[1]
    session, seen = bench.fetch(*named, session=(0, 0), version=BY_NAME, wait_ms=50)
    yield seen
    yield bench.fetch(session=(session, 1), version=BY_NAME, wait_ms=50)[1]


@scenario
def a_partition_that_comes_to_be(bench: Bench) -> Iterator[Any]:
    """A partition that is fetched before it exists is returned once it does."""
    one = bench.topic("one", 1)
    session, seen = bench.fetch((one, 0, 0), (one, 1, 0), session=(0, 0))
    yield seen
    yield bench.fetch(session=(session, 1))[1]
    bench.wire.add_partition(bench.full_name("one"), 2)
    wait_for(lambda: bench.produce(one, partition=1)[1] == "NONE", "a record in the new partition")
    yield bench.fetch(session=(session, 2))[1]
    yield bench.fetch(session=(session, 3))[1]


@scenario
def leader_epochs(bench: Bench) -> Iterator[Any]:
    """A future leader epoch is refused; one below 0 disables the check."""
    one = bench.topic("one")
    for version in (11, BY_NAME, 15, 16, NEWEST):
        topic = one if version >= BY_ID else "one"
        for epoch in (-2, 0, 3):
            yield version, epoch, bench.fetch((topic, 0, 0), version=version, current_leader_epoch=epoch)[1]
    session, seen = bench.fetch((one, 0, 0), session=(0, 0), current_leader_epoch=-2)
    yield seen
    yield bench.fetch(session=(session, 1))[1]
    yield bench.fetch((one, 0, 0), session=(session, 2))[1]


@scenario
def deleted_and_created_again(bench: Bench) -> Iterator[Any]:
    """A client with the old topic's id never reads or writes the new topic."""
    old, other = bench.topic("again"), bench.topic("other")
    bench.produce(old)
    bench.produce(other)
    by_id, seen = bench.fetch((old, 0, 0), (other, 0, 0), session=(0, 0))
    yield seen
    by_name, seen = bench.fetch(("again", 0, 0), ("other", 0, 0), session=(0, 0), version=BY_NAME)
    yield seen
    bench.delete("again")
    yield bench.fetch((other, 0, 1), session=(by_id, 1))[1]
    yield bench.fetch(("other", 0, 1), session=(by_name, 1), version=BY_NAME)[1]
    yield bench.fetch((old, 0, 0))[1]
    yield bench.produce(old)
    new = bench.topic("again")
    bench.produce(new)
    yield bench.fetch(session=(by_id, 2))[1]
    yield bench.fetch(session=(by_name, 2), version=BY_NAME)[1]
    yield bench.fetch((new, 0, 0), session=(by_id, 3))[1]
    yield bench.fetch(session=(by_id, 4))[1]
    yield bench.fetch((old, 0, 0))[1]
    yield bench.fetch((old, 0, 0), (new, 0, 0))[1]
    yield bench.produce(old), bench.produce(new), bench.produce(NO_TOPIC), bench.produce(UUID(int=0))
    yield bench.produce("again", version=12), bench.produce("nowhere", version=12)
    late, seen = bench.fetch((old, 0, 0), (new, 0, 0), session=(0, 0))
    yield seen
    yield bench.fetch(session=(late, 1))[1]


@scenario
def offsets_of_a_topic_that_was_created_again(bench: Bench) -> Iterator[Any]:
    old, other = bench.topic("again"), bench.topic("other")
    bench.stage.coordinator()
    yield _committed(bench, old, NO_TOPIC, other), _committed_offsets(bench, old, NO_TOPIC, other)
    yield _committed_offsets(bench)
    bench.delete("again")
    yield _committed(bench, old), _committed_offsets(bench, old)
    new = bench.topic("again")
    _await_forgotten(bench, "again")
    yield _committed_offsets(bench, old, new), _committed(bench, old), _committed_offsets(bench, old, new)
    yield _committed(bench, new), _committed_offsets(bench, old, new, UUID(int=0))
    yield _committed_offsets(bench)


def _committed(bench: Bench, *topics: UUID) -> Any:
    parts = tuple([OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in (0, 9)])
    asked = tuple([OffsetCommitRequestTopic(topic_id=topic, partitions=parts) for topic in topics])
    answer = bench.wire.call(ApiKey.OFFSET_COMMIT, 10, OffsetCommitRequest(group_id=bench.stage.group, topics=asked))
    return sorted(
        (bench.label(topic.topic_id), part.partition_index, ErrorCode(part.error_code).name)
        for topic in answer.topics
        for part in topic.partitions
    )


def _committed_offsets(bench: Bench, *topics: UUID) -> Any:
    asked = tuple([OffsetFetchRequestTopics(topic_id=topic, partition_indexes=(0, 1)) for topic in topics]) or None
    groups = (OffsetFetchRequestGroup(group_id=bench.stage.group, topics=asked),)
    [group] = bench.wire.call(ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=groups)).groups
    found = [
        (
            bench.label(topic.topic_id),
            part.partition_index,
            ErrorCode(part.error_code).name,
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata,
        )
        for topic in group.topics
        for part in topic.partitions
    ]
    return ErrorCode(group.error_code).name, found if asked else sorted(found)


def _await_forgotten(bench: Bench, suffix: str) -> None:
    """Returns once the coordinator has handled the deletion of the topic."""
    asked = (OffsetFetchRequestTopics(name=bench.full_name(suffix), partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=bench.stage.group, topics=asked),))
    for _ in range(400):
        [group] = bench.wire.call(ApiKey.OFFSET_FETCH, 8, request).groups
        if group.topics[0].partitions[0].committed_offset == -1:
            return
        time.sleep(0.02)
    raise AssertionError("the offset is still there")


@scenario
def topics_deleted_by_id(bench: Bench) -> Iterator[Any]:
    one, two = bench.topic("one"), bench.topic("two")
    by_name = DeleteTopicState(name=bench.full_name("two"))
    for asked in (
        (DeleteTopicState(topic_id=one), DeleteTopicState(topic_id=NO_TOPIC)),
        (DeleteTopicState(topic_id=one),),
        (DeleteTopicState(topic_id=two), DeleteTopicState(topic_id=two)),
        (DeleteTopicState(topic_id=two, name=bench.full_name("two")), DeleteTopicState()),
        (DeleteTopicState(topic_id=two), by_name),
        (by_name,),
    ):
        answer = bench.wire.call(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=asked, timeout_ms=9000))
        yield sorted(
            (bench.label(result.topic_id), (result.name or "-")[-3:], ErrorCode(result.error_code).name)
            for result in answer.responses
        )


@scenario
def metadata_by_id(bench: Bench) -> Iterator[Any]:
    one = bench.topic("one")
    name = bench.full_name("one")
    for version in (10, 11, 12, 13):
        for asked in (
            (MetadataRequestTopic(topic_id=one, name=None),),
            (MetadataRequestTopic(topic_id=one, name=name),),
            (MetadataRequestTopic(topic_id=one, name="nowhere"),),
            (MetadataRequestTopic(topic_id=NO_TOPIC, name=None),),
            (MetadataRequestTopic(topic_id=one, name=None), MetadataRequestTopic(name="nowhere")),
            (MetadataRequestTopic(name=name), MetadataRequestTopic(name=name)),
        ):
            request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
            answer = bench.wire.call(ApiKey.METADATA, version, request)
            yield (
                ErrorCode(answer.error_code).name,
                len(answer.brokers),
                [
                    (bench.label(topic.topic_id), topic.name, ErrorCode(topic.error_code).name, len(topic.partitions))
                    for topic in answer.topics
                ],
            )


@scenario
def special_offsets_by_version(bench: Bench) -> Iterator[Any]:
    """Each special timestamp is supported from some version on; listing a partition twice is an error."""
    bench.produce(bench.topic("one"), b"a", b"b")
    for version in (1, 6, 7, 8, 9, 10, 11):
        for timestamps in (*[(n,) for n in range(-7, 0)], (-1, -2)):
            parts = tuple([ListOffsetsPartition(partition_index=0, timestamp=each) for each in timestamps])
            topics = (ListOffsetsTopic(name=bench.full_name("one"), partitions=parts),)
            request = ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=5000)
            [topic] = bench.wire.call(ApiKey.LIST_OFFSETS, version, request).topics
            yield [
                (version, timestamps, ErrorCode(part.error_code).name, part.offset, part.timestamp)
                for part in topic.partitions
            ]


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_answers_are_kafkas(comparison: Comparison, name: str) -> None:
    prefix = f"{name.replace('_', '-')[:40]}-{secrets.token_hex(3)}-"
    ours = _observe(comparison.odradek.bootstrap, name, prefix)
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    kafkas = _observe(comparison.kafka.bootstrap, name, prefix)
    assert dict(differences(kafkas, ours)) == {}, "each path with (Kafka's, ours)"


def _observe(bootstrap: str, name: str, prefix: str) -> list[Any]:
    with Wire(bootstrap) as wire:
        return [_plain(step) for step in SCENARIOS[name](Bench(wire, prefix))]


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
