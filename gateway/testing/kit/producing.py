"""Writes records through Produce, as a producer does: validated, within the topic's limits, which may create it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import trio

from odradek.gateway.testing.kit.access import NO_PRODUCER, Access, ProducerId
from odradek.gateway.testing.kit.errors import check
from odradek.gateway.testing.kit.lookup import Topic, retried, topic_of
from odradek.gateway.testing.kit.partitioner import partition_of_key
from odradek.gateway.testing.kit.values import Data, NewRecord, Record, as_bytes, as_headers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.wire.records.batch import NO_SEQUENCE
from odradek.wire.records.builder import SimpleRecord, build_batch

VERSION: Final = 9
BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 256 * 1024
TIMEOUT_MS: Final = 30_000
NOT_STORED: Final = frozenset(
    {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors of a batch that is certainly not stored."""
NAMES: Final = frozenset(NewRecord.__annotations__)


class Placing:
    """Chooses partitions: a key's by murmur2; records without a key take the partitions in turn."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: Topic, key: bytes | None) -> int:
        """The partition of a record of which none is given."""
        count = len(topic.leaders)
        if key is not None:
            return partition_of_key(key, count)
        turn = self._next.get(topic.name, 0)
        self._next[topic.name] = turn + 1
        return turn % count


async def produce(access: Access, name: str, new: Iterable[Data | NewRecord], placing: Placing) -> list[Record]:
    """Write records, and return them with their offsets, in the order given.

    Raises UnknownTopicError if there is no such topic and the broker creates none, LookupError if there is no such
    partition, KitError with the reason if the broker refuses records; those before them may have been stored.
    """
    wanted, now_ms = [_checked(each) for each in new], access.wall_ms()
    topic = await retried(access, lambda: topic_of(access, name, may_create=True))
    placed: list[Record] = []
    for each in wanted:
        placed.append(_placed(topic, each, placing, now_ms))
        if not len(placed) % BATCH_RECORDS:
            await trio.lowlevel.checkpoint()  # the broker has other work, too
    sender = Sender(access, name, await retried(access, access.producer))
    stored: dict[int, Record] = {}
    for numbers in _batches(placed):
        batch = [placed[each] for each in numbers]
        records = await retried(access, lambda batch=batch: sender.send(batch))
        sender.sent(batch)
        stored |= dict(zip(numbers, records, strict=True))
    return [stored[each] for each in range(len(placed))]


def _checked(new: Data | NewRecord) -> NewRecord:
    if not isinstance(new, dict):
        return {"value": new}
    unknown = new.keys() - NAMES
    if unknown:
        raise TypeError(f"a new record has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(NAMES))}")
    return new


def _placed(topic: Topic, new: NewRecord, placing: Placing, now_ms: int) -> Record:
    key = as_bytes(new.get("key"))
    partition = new.get("partition")
    if partition is None:
        partition = placing.partition(topic, key)
    if partition not in topic.leaders:
        raise LookupError(f"topic {topic.name!r} has no partition {partition}, only 0 to {len(topic.leaders) - 1}")
    timestamp_ms = new.get("timestamp_ms")
    return Record(
        topic.name,
        partition,
        -1,
        now_ms if timestamp_ms is None else timestamp_ms,
        key,
        as_bytes(new.get("value")),
        as_headers(new.get("headers")),
    )


def _batches(placed: Sequence[Record]) -> Iterator[list[int]]:
    """The records by their numbers, in batches of one partition each."""
    order = sorted(range(len(placed)), key=lambda each: placed[each].partition)  # stable: the order in each stays
    for _, numbers in groupby(order, key=lambda each: placed[each].partition):
        batch: list[int] = []
        size = 0
        for number in numbers:
            record = placed[number]
            added = len(record.key or b"") + len(record.value or b"")
            if batch and (len(batch) == BATCH_RECORDS or size + added > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(number)
            size += added
        yield batch


class Sender:
    """Sends batches of one topic, with the sequence numbers of an idempotent `producer` if it has an id.

    Only then a batch is sent again after an error that leaves open whether it is stored.
    """

    def __init__(self, access: Access, name: str, producer: ProducerId) -> None:
        self._access = access
        self._name = name
        self._producer = producer
        self._next: dict[int, int] = {}

    async def send(self, batch: Sequence[Record]) -> list[Record]:
        """Send records of one partition to its leader. Raises TemporaryError, KitError, UnreachableError."""
        topic = await topic_of(self._access, self._name)
        index = batch[0].partition
        part = PartitionProduceData(index=index, records=memoryview(self._built(batch)))
        data = TopicProduceData(name=self._name, partition_data=(part,))
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=(data,))
        response = await self._access.ask(request, ProduceResponse, VERSION, topic.leaders[index])
        [answer] = response.responses[0].partition_responses
        what = f"{self._name}-{index} refuses {len(batch)} record{'s' * (len(batch) > 1)}"
        temporary = NOT_STORED if self._producer == NO_PRODUCER else None
        check(answer.error_code, what, _reason(answer), temporary)
        return [_stored(each, number, answer) for number, each in enumerate(batch)]

    def _built(self, batch: Sequence[Record]) -> bytes:
        has_id = self._producer != NO_PRODUCER
        return build_batch(
            [SimpleRecord(each.key, each.value, each.timestamp_ms, each.headers) for each in batch],
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._next.get(batch[0].partition, 0) if has_id else NO_SEQUENCE,
        )

    def sent(self, batch: Sequence[Record]) -> None:
        """The batch is stored: the next one of this partition follows it."""
        index = batch[0].partition
        self._next[index] = self._next.get(index, 0) + len(batch)


def _reason(answer: PartitionProduceResponse) -> str | None:
    reasons = [answer.error_message, *[each.batch_index_error_message for each in answer.record_errors]]
    return "; ".join([each for each in reasons if each]) or None


def _stored(record: Record, number: int, answer: PartitionProduceResponse) -> Record:
    appended_ms = answer.log_append_time_ms
    return Record(
        record.topic,
        record.partition,
        answer.base_offset + number,
        record.timestamp_ms if appended_ms < 0 else appended_ms,
        record.key,
        record.value,
        record.headers,
    )
