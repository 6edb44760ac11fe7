"""The transactional part of `every_version`: the requests of producers and tools around transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from compat_tests.every_version import TIMESTAMP_MS, Stage, script
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch

TIMEOUT_MS = 60_000
TRANSACTION = 1
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Errors after which a client retries: Kafka writes markers after it has answered."""


def retrying(ask: Callable[[], Any], error_of: Callable[[Any], int] = lambda answer: answer.error_code) -> Any:
    """Repeats a request until the answer is a lasting one."""
    answer = ask()
    for _ in range(400):
        if error_of(answer) not in PASSING:
            return answer
        time.sleep(0.025)
        answer = ask()
    raise AssertionError(f"still {answer}")


def _unsettled(described: Any) -> int:
    """CONCURRENT_TRANSACTIONS while markers are being written."""
    preparing = described.transaction_states[0].transaction_state.startswith("Prepare")
    return ErrorCode.CONCURRENT_TRANSACTIONS if preparing else ErrorCode.NONE


class Transactional(NamedTuple):
    """A producer with a transactional id; `old` and `other` have the same id, but a wrong epoch or producer id."""

    stage: Stage
    id: str
    producer_id: int
    epoch: int

    @staticmethod
    def begin(stage: Stage, suffix: str = "") -> Transactional:
        """Finds the coordinator, and initializes a new id."""
        name = f"{stage.name}{suffix}-id"
        request = FindCoordinatorRequest(key=name, key_type=TRANSACTION)
        retrying(lambda: stage.wire.call(ApiKey.FIND_COORDINATOR, 2, request))
        stage.coordinator()
        given = init(stage, 1, name)
        assert given.error_code == 0, given
        return Transactional(stage, name, given.producer_id, given.producer_epoch)

    @property
    def old(self) -> Transactional:
        return self._replace(epoch=self.epoch - 1)

    @property
    def other(self) -> Transactional:
        return self._replace(producer_id=self.producer_id + 500_000)

    def claim(self) -> dict[str, Any]:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def add(self, version: int, topic: str, *partitions: int, verify: bool = False) -> Any:
        """AddPartitionsToTxn as a producer sends it, or from version 4 on as a broker does."""
        if version >= 4:
            return self._add_as_broker(version, topic, partitions, verify)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),),
        )

        def first(answer: Any) -> int:
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        answer = retrying(lambda: self.stage.wire.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request), first)
        (results,) = answer.results_by_topic_v3_and_below
        return sorted((one.partition_index, one.partition_error_code) for one in results.results_by_partition)

    def _add_as_broker(self, version: int, topic: str, partitions: tuple[int, ...], verify: bool) -> Any:
        transaction = AddPartitionsToTxnTransaction(
            **self.claim(), verify_only=verify, topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),)
        )
        request = AddPartitionsToTxnRequest(transactions=(transaction,))

        def first(answer: Any) -> int:
            return answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code

        answer = retrying(lambda: self.stage.wire.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request), first)
        (results,) = answer.results_by_transaction
        (results,) = results.topic_results
        return sorted((one.partition_index, one.partition_error_code) for one in results.results_by_partition)

    def add_offsets(self, version: int) -> Any:
        request = AddOffsetsToTxnRequest(**self.claim(), group_id=self.stage.group)
        return retrying(lambda: self.stage.wire.call(ApiKey.ADD_OFFSETS_TO_TXN, version, request))

    def end(self, version: int, committed: bool) -> Any:
        request = EndTxnRequest(**self.claim(), committed=committed)
        return retrying(lambda: self.stage.wire.call(ApiKey.END_TXN, version, request))

    def after(self, ended: Any) -> Transactional:
        """The producer with the id and epoch of an EndTxn 5 response."""
        return self._replace(producer_id=ended.producer_id, epoch=ended.producer_epoch)

    def mark(self, version: int, topic: str, committed: bool, coordinator_epoch: int = 0, follows: int = 0) -> Any:
        """A marker as a coordinator or an administrator writes it."""
        marker = WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_result=committed,
            topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(0, 99)),),
            coordinator_epoch=coordinator_epoch,
            transaction_version=follows,
        )
        request = WriteTxnMarkersRequest(markers=(marker,))
        (answer,) = self.stage.wire.call(ApiKey.WRITE_TXN_MARKERS, version, request).markers
        (found,) = answer.topics
        return sorted((one.partition_index, one.error_code) for one in found.partitions)

    def produce(self, version: int, topic: str, sequence: int = 0, partition: int = 0) -> Any:
        batch = build_batch(
            [SimpleRecord(b"k", b"v%d" % sequence, TIMESTAMP_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = (PartitionProduceData(index=partition, records=memoryview(batch)),)
        request = ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=9000,
            topic_data=(TopicProduceData(name=topic, topic_id=self.stage.id_of(topic), partition_data=data),),
        )

        def first(answer: Any) -> int:
            return answer.responses[0].partition_responses[0].error_code

        return retrying(lambda: self.stage.wire.call(ApiKey.PRODUCE, version, request), first)

    def commit_offset(self, version: int, topic: str, **fields: Any) -> Any:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="note")
        request = TxnOffsetCommitRequest(
            **self.claim(),
            group_id=self.stage.group,
            topics=(TxnOffsetCommitRequestTopic(name=topic, topic_id=self.stage.id_of(topic), partitions=(part,)),),
            **fields,
        )

        def first(answer: Any) -> int:
            return answer.topics[0].partitions[0].error_code

        return retrying(lambda: self.stage.wire.call(ApiKey.TXN_OFFSET_COMMIT, version, request), first)

    def described(self) -> Any:
        """The description without times, once the state is a lasting one."""
        request = DescribeTransactionsRequest(transactional_ids=(self.id,))
        answer = retrying(lambda: self.stage.wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request), _unsettled)
        (found,) = answer.transaction_states
        topics = sorted([topic.topic, sorted(topic.partitions)] for topic in found.topics)
        what = (found.error_code, found.transaction_state, found.transaction_timeout_ms, found.producer_epoch)
        return *what, found.transaction_start_time_ms > 0, topics

    def committed(self, topic: str) -> Any:
        """The group's offset, stable or not."""
        asked = (OffsetFetchRequestTopic(name=topic, partition_indexes=(0,)),)
        return [
            self.stage.wire.call(
                ApiKey.OFFSET_FETCH,
                7,
                OffsetFetchRequest(group_id=self.stage.group, topics=asked, require_stable=stable),
            )
            for stable in (False, True)
        ]

    def readable(self, topic: str, partition: int = 0) -> Any:
        """The data for a read_committed consumer, and the partition's end for it."""
        part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
        fetched = self.stage.wire.call(
            ApiKey.FETCH,
            11,
            FetchRequest(
                max_wait_ms=10, min_bytes=1, isolation_level=1, topics=(FetchTopic(topic=topic, partitions=(part,)),)
            ),
        )
        (found,) = fetched.responses[0].partitions
        ends = [
            self.stage.wire.call(
                ApiKey.LIST_OFFSETS,
                5,
                ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=level,
                    topics=(
                        ListOffsetsTopic(
                            name=topic, partitions=(ListOffsetsPartition(partition_index=partition, timestamp=-1),)
                        ),
                    ),
                ),
            )
            for level in (0, 1)
        ]
        aborted = [one.first_offset for one in found.aborted_transactions or ()]
        read = [header.base_offset for header in iter_headers(memoryview(bytes(found.records or b"")))]
        return found.error_code, found.high_watermark, found.last_stable_offset, read, aborted, ends


def init(stage: Stage, version: int, name: str | None, **fields: Any) -> Any:
    values: dict[str, Any] = {"transaction_timeout_ms": TIMEOUT_MS, **fields}
    request = InitProducerIdRequest(transactional_id=name, **values)
    return retrying(lambda: stage.wire.call(ApiKey.INIT_PRODUCER_ID, version, request))


@script(ApiKey.INIT_PRODUCER_ID)
def _init_producer_id(stage: Stage, version: int) -> Iterator[Any]:
    yield init(stage, version, None)
    yield init(stage, version, "")
    producer = Transactional.begin(stage)
    for timeout_ms in (0, 900_001):
        yield init(stage, version, producer.id, transaction_timeout_ms=timeout_ms)
    yield init(stage, version, producer.id)
    if version >= 3:
        claims = [(0, 1), (0, 1), (0, 0), (500_000, 1), (0, 2)]
        for other, epoch in claims:
            yield init(stage, version, producer.id, producer_id=producer.producer_id + other, producer_epoch=epoch)
        yield init(stage, version, producer.id, producer_id=-1, producer_epoch=3)
    holder = Transactional.begin(stage, "-ongoing")
    topic = stage.topic()
    yield holder.add(0, topic, 0)
    yield init(stage, version, holder.id)
    yield holder.described()
    yield holder.end(0, True)


@script(ApiKey.ADD_PARTITIONS_TO_TXN)
def _add_partitions_to_txn(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.add(version, topic, 0, 99)
    yield producer.add(version, "not-there", 0)
    yield producer.described()
    yield producer.add(version, topic, 0)
    yield producer.add(version, topic, 0, 1)
    yield producer.described()
    yield producer.old.add(version, topic, 0)
    yield producer.other.add(version, topic, 0)
    yield producer._replace(id="nobody").add(version, topic, 0)
    yield producer._replace(id="").add(version, topic, 0)
    if version >= 4:
        for impostor in (producer, producer.old, producer.other, producer._replace(id="")):
            yield impostor.add(version, topic, 0, 1, verify=True)
    yield producer.end(1, False)
    yield producer.described()
    if version >= 4:
        yield producer.add(version, topic, 1, verify=True)
    yield producer.add(version, topic, 1)
    yield producer.described()


@script(ApiKey.ADD_OFFSETS_TO_TXN)
def _add_offsets_to_txn(stage: Stage, version: int) -> Iterator[Any]:
    producer = Transactional.begin(stage)
    yield producer.add_offsets(version)
    yield producer.described()
    yield producer.old.add_offsets(version)
    yield producer.other.add_offsets(version)
    yield producer._replace(id="").add_offsets(version)


@script(ApiKey.END_TXN)
def _end_txn(stage: Stage, version: int) -> Iterator[Any]:
    if version >= 5:
        yield from _end_txn_with_epochs(stage, version)
        return
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.end(version, True)
    for committed in (True, False):
        yield producer.add(2, topic, 0)
        yield producer.produce(9, topic, 0 if committed else 1)
        yield producer.readable(topic)
        yield producer.old.end(version, committed)
        yield producer.other.end(version, committed)
        yield producer.end(version, committed)
        yield producer.described()
        yield producer.end(version, committed)
        yield producer.end(version, not committed)
        yield producer.readable(topic)
    yield producer._replace(id="").end(version, True)
    yield producer._replace(id="nobody").end(version, True)


def _end_txn_with_epochs(stage: Stage, version: int) -> Iterator[Any]:
    """Every end of a transaction increments the epoch; a retry has the previous one."""
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.end(version, True)
    for committed in (True, False, True):
        yield producer.produce(12, topic)
        yield producer.readable(topic)
        yield producer.old.end(version, committed)
        yield producer.other.end(version, committed)
        ended = producer.end(version, committed)
        yield ended
        yield producer.described()
        yield producer.end(version, committed)
        yield producer.end(version, not committed)
        yield producer.produce(12, topic)
        yield producer.produce(12, topic, partition=1)
        producer = producer.after(ended)
        yield producer.end(version, True)
        yield producer.readable(topic)
    for _ in range(2):
        ended = producer.end(version, False)
        yield ended
        producer = producer.after(ended)
        yield producer.described()
    yield producer.old.old.end(version, False)
    yield producer._replace(id="").end(version, True)
    yield producer._replace(id="nobody").end(version, True)


@script(ApiKey.WRITE_TXN_MARKERS)
def _write_txn_markers(stage: Stage, version: int) -> Iterator[Any]:
    """A marker of an administrator for a hanging transaction, and markers with an old coordinator epoch."""
    topic = stage.topic()
    begun = Transactional.begin(stage)
    producer = begun._replace(epoch=init(stage, 1, begun.id).producer_epoch)
    yield producer.mark(version, "not-there", True)
    yield producer.add(0, topic, 0)
    yield producer.produce(9, topic)
    yield producer.old.mark(version, topic, True)
    if version >= 2:
        yield producer.mark(version, topic, True, follows=2)
    yield producer.mark(version, topic, False, coordinator_epoch=7)
    yield producer.readable(topic)
    yield producer.mark(version, topic, False, coordinator_epoch=7, follows=2 if version >= 2 else 0)
    yield producer.mark(version, topic, True, coordinator_epoch=6)
    later = producer._replace(epoch=producer.epoch + 5)
    yield later.mark(version, topic, True, coordinator_epoch=8)
    yield producer.produce(9, topic, sequence=1)
    yield producer._replace(producer_id=producer.producer_id + 900_000).mark(version, topic, True)
    yield producer.readable(topic)


@script(ApiKey.TXN_OFFSET_COMMIT)
def _txn_offset_commit(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.commit_offset(version, topic)
    yield producer.described()
    yield producer.add_offsets(0)
    yield producer.old.commit_offset(version, topic)
    yield producer.commit_offset(version, topic)
    yield producer.commit_offset(version, "not-there")
    if version >= 3:
        yield producer.commit_offset(version, topic, generation_id_or_member_epoch=7, member_id="nobody")
        yield producer.commit_offset(version, topic, group_instance_id="nobody")
    yield producer.committed(topic)
    yield producer.end(0, False)
    yield producer.described()
    yield producer.committed(topic)
    yield producer.add_offsets(0)
    yield producer.commit_offset(version, topic)
    yield producer.end(0, True)
    yield producer.described()
    yield producer.committed(topic)
    yield producer.commit_offset(version, topic)


@script(ApiKey.DESCRIBE_TRANSACTIONS)
def _describe_transactions(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.described()
    yield producer.add(0, topic, 0, 1)
    yield producer.described()
    yield producer.end(0, True)
    yield producer.described()
    request = DescribeTransactionsRequest(transactional_ids=("nobody", ""))
    yield stage.wire.call(ApiKey.DESCRIBE_TRANSACTIONS, version, request)


@script(ApiKey.LIST_TRANSACTIONS)
def _list_transactions(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    idle, busy = Transactional.begin(stage, "-idle"), Transactional.begin(stage, "-busy")
    Transactional.begin(stage, " Größe/1\n日本😀")
    yield busy.add(0, topic, 0)
    filters: list[dict[str, Any]] = [{}, {"state_filters": ("Ongoing",)}, {"state_filters": ("Empty", "Sleeping")}]
    filters.append({"producer_id_filters": (idle.producer_id,)})
    if version >= 1:
        filters += [{"duration_filter": 0}, {"duration_filter": 3_600_000}]
    if version >= 2:
        filters += [{"transactional_id_pattern": pattern} for pattern in (None, "", *_patterns(stage.name))]
        filters += [{"transactional_id_pattern": "(", "state_filters": ("Sleeping",)}]
        filters += [{"transactional_id_pattern": ".*-id", "producer_id_filters": (idle.producer_id,)}]
    for chosen in filters:
        listed = stage.wire.call(ApiKey.LIST_TRANSACTIONS, version, ListTransactionsRequest(**chosen))
        mine = [one for one in listed.transaction_states if one.transactional_id.startswith(stage.name)]
        mine.sort(key=lambda one: one.transactional_id)
        yield listed.error_code, list(listed.unknown_state_filters), mine
    yield busy.end(0, False)


def _patterns(name: str) -> tuple[str, ...]:
    """Patterns that match one id of `_list_transactions`, some or none; then invalid expressions."""
    taken = (
        *(".*-busy-id", "busy", f"{name}-(idle|busy)-id", f"{name.upper()}-IDLE-ID", f"(?i){name.upper()}-IDLE-ID"),
        *(".*", "(?s).*", f"{name}.*\n.*", r".* \pL+/\d\s\p{Han}{2}[^\w]-id", f"{name} Größe/.\n日本.-id", r"\p{Lu}+"),
        *("(?i).*GRÖSSE.*", r"(?is).*GRÖ\w+.*", r"(?is).*GRÖSSE.*", r"(?is).*GRÖ\x{df}E.*", r"(?ms).*^.*\p{So}-id$"),
    )
    return (*taken, "[", "*", "(?=a)", "a{1001}", r"\p{Emoji}", "x**", "é(?P<é>a)")


@script(ApiKey.DESCRIBE_PRODUCERS)
def _describe_producers(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.add(0, topic, 0)
    yield producer.produce(9, topic)
    topics = (TopicRequest(name=topic, partition_indexes=(0, 1, 99)), TopicRequest(name="nope", partition_indexes=(0,)))
    request = DescribeProducersRequest(topics=topics)
    open_now = stage.wire.call(ApiKey.DESCRIBE_PRODUCERS, version, request)
    yield [[_without_time(part) for part in one.partitions] for one in open_now.topics]
    yield producer.end(0, True)
    yield producer.described()
    ended = stage.wire.call(ApiKey.DESCRIBE_PRODUCERS, version, request)
    yield [[_without_time(part) for part in one.partitions] for one in ended.topics]


def _without_time(part: Any) -> Any:
    active = [
        [one.producer_epoch, one.last_sequence, one.coordinator_epoch >= 0, one.current_txn_start_offset]
        for one in part.active_producers
        if one.last_timestamp > 0
    ]
    return part.partition_index, part.error_code, active


def refused_batches(stage: Stage, version: int) -> Iterator[Any]:
    """Transactional batches outside of transactions, for Produce; a correct transaction comes last."""
    topic = stage.topic()
    producer = Transactional.begin(stage)
    if version >= 12:
        yield producer.produce(version, topic, sequence=3)
    yield producer.produce(version, topic)
    yield producer._replace(id=None).produce(version, topic)  # type: ignore[arg-type]
    yield producer._replace(id="nobody").produce(version, topic)
    yield producer.add(0, topic, 0)
    yield producer.other.produce(version, topic)
    yield producer.old.produce(version, topic)
    yield producer.produce(version, topic, partition=1)
    yield producer.produce(version, topic)
    yield producer.produce(version, topic)  # a duplicate
    yield producer.produce(version, topic, sequence=7)
    yield producer.old.produce(version, topic)
    yield producer.readable(topic)
    yield producer.end(0, False)
    yield producer.described()
    yield producer.readable(topic)
    yield producer.produce(version, topic, sequence=1)
