"""Writes records through Produce, as a producer does: validated, within the topic's limits, which may create it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from odradek.gateway.testing.kit.access import Access, UnreachableError
from odradek.gateway.testing.kit.lookup import Topic, check, retried, topic_of
from odradek.gateway.testing.kit.partitioner import partition_of_key
from odradek.gateway.testing.kit.values import Data, KitError, NewRecord, Record, as_bytes, as_headers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.wire.records.builder import SimpleRecord, build_batch

VERSION: Final = 9
BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 256 * 1024
TIMEOUT_MS: Final = 30_000
NOT_STORED: Final = frozenset(
    {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors after which a batch is sent again. After others it may be stored, and would be there twice."""
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
    wanted = [_checked(each) for each in new]
    topic = await retried(access, lambda: topic_of(access, name, may_create=True))
    placed = [_placed(topic, each, placing, access.wall_ms()) for each in wanted]
    stored: dict[int, Record] = {}
    for batch in _batches(placed):
        records = await retried(access, lambda batch=batch: _send(access, name, [placed[each] for each in batch]))
        stored |= dict(zip(batch, records, strict=True))
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


async def _send(access: Access, name: str, batch: Sequence[Record]) -> list[Record]:
    topic = await topic_of(access, name)
    index = batch[0].partition
    data = build_batch([SimpleRecord(each.key, each.value, each.timestamp_ms, each.headers) for each in batch])
    part = PartitionProduceData(index=index, records=memoryview(data))
    request = ProduceRequest(
        acks=-1, timeout_ms=TIMEOUT_MS, topic_data=(TopicProduceData(name=name, partition_data=(part,)),)
    )
    what = f"{name}-{index} refuses {len(batch)} record{'s' * (len(batch) > 1)}"
    try:
        response = await access.ask(request, ProduceResponse, VERSION, topic.leaders[index])
    except UnreachableError as error:
        raise KitError(f"{what}, or has stored them: {error}", "NETWORK_EXCEPTION") from error
    [answer] = response.responses[0].partition_responses
    check(answer.error_code, what, _reason(answer), temporary=NOT_STORED)
    return [_stored(each, number, answer) for number, each in enumerate(batch)]


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
