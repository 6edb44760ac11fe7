"""Copies with new offsets, to a target that does not support the source's offsets: with a transactional producer.

Each transaction contains records and, for each partition, the entry of the offset map with its progress
(`offset_map.py`). Both are committed or neither, so after a crash the next run continues after the committed records.
Each topic has a transactional id: a second mirror of the same topic from the same cluster fences the first. After a
temporary error copying starts again from the committed progress.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import time
from functools import partial
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition

from odradek.pipeline.cluster import LOG, Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.batches import COMPACTED, RETENTION
from odradek.pipeline.mirroring.offset_map import (
    MAP_TOPIC,
    MAX_ENTRIES,
    Entry,
    Maps,
    PartitionMap,
    create_map_topic,
    key_of,
    read_maps,
)
from odradek.pipeline.mirroring.verbatim import CopyPass, Part
from odradek.pipeline.retrying import Retries
from odradek.pipeline.topic_partition import TopicPartition

GAPS: Final = f"marker, aborted or {COMPACTED}"
TRANSACTION_RECORDS: Final = 50_000
TRANSACTION_BYTES: Final = 32 * 1024 * 1024
TRANSACTION_S: Final = 2.0
CONSUMED_AT_ONCE: Final = 5_000
CONSUME_S: Final = 0.1
MAX_MESSAGE_BYTES: Final = 100_000_000
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001
_NOT_THERE: Final = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001
_FINAL: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class _GoneError(Exception):
    """The topic does not exist any more."""


def copy_topic(source: Connection, target: Cluster, cluster_id: str, topic: str, copied: CopyPass) -> Maps:
    """Copy the pass's partitions of one topic up to their ends, or until the job has to stop; returns their maps.
    Raises PipelineError; what was committed before is kept.
    """
    create_map_topic(target)
    retries = Retries(copied.retry_limit_s, copied.stopping)
    parts = {place: part for place, part in copied.parts.items() if place.topic == topic}
    while True:
        before = _progress(parts)
        try:
            with _Copy(source, target, cluster_id, topic, parts, copied) as copy:
                copy.run()
                return copy.maps
        except _GoneError as error:
            copied.gone[topic] = f"at the source: {error}"
            return {}
        except KafkaException as error:
            problem = _judge(error.args[0], topic)
        if _progress(parts) > before:
            retries.progress()
        if copied.stopping():
            return {}
        if retries.is_over:
            raise PipelineError(f"topic {topic!r} cannot be copied: {problem}")
        if retries.is_first:
            copied.note(f"topic {topic!r}: {problem}; beginning again behind what is committed")
        retries.wait()


def _progress(parts: dict[TopicPartition, Part]) -> int:
    return sum(part.report.to_offset for part in parts.values())


def _judge(error: KafkaError, topic: str) -> str:
    if error.code() in _FENCED:
        raise PipelineError(f"another mirror copies topic {topic!r} from this cluster: {error.str()}")
    if error.code() in _FINAL:
        raise PipelineError(f"the target refuses a record of topic {topic!r}: {error.str()}")
    return error.str()


class _Copy:
    """One attempt: a consumer, a producer, and the committed map. Raises KafkaException."""

    def __init__(
        self,
        source: Connection,
        target: Cluster,
        cluster_id: str,
        topic: str,
        parts: dict[TopicPartition, Part],
        copied: CopyPass,
    ) -> None:
        self._cluster_id, self._topic, self._parts, self._pass = cluster_id, topic, parts, copied
        self._timeout_s = target.connection.timeout_s
        self._producer = Producer(_producer_settings(target.connection, cluster_id, topic), logger=LOG)
        self._producer.init_transactions(self._timeout_s)  # aborts an open transaction of a killed mirror
        every = read_maps(target, cluster_id)
        self.maps: Maps = {place: every.get(place, PartitionMap()) for place in parts}
        self._consumer = Consumer(_consumer_settings(source), logger=LOG)
        self._positions: dict[int, int] = {}
        self._entries: dict[int, Entry] = {}
        self._deleted: dict[int, int] = {}
        self._refused: KafkaError | None = None

    def __enter__(self) -> "_Copy":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._consumer.close()
        if kind is not None:
            self._producer.purge()

    def run(self) -> None:
        """Copy transaction by transaction."""
        for place, part in self._parts.items():
            begun = self.maps[place].next_offset
            self._positions[place.partition] = part.report.to_offset = part.next_offset if begun is None else begun
        self._assign(self._positions)
        while not self._pass.stopping() and self._unfinished():
            self._transaction()

    def _assign(self, positions: dict[int, int]) -> None:
        self._consumer.assign([KafkaTopicPartition(self._topic, index, offset) for index, offset in positions.items()])

    def _unfinished(self) -> bool:
        return any(self._positions[place.partition] < part.end_offset for place, part in self._parts.items())

    def _transaction(self) -> None:
        messages, ends = self._gather()
        if not messages and not ends:
            self._check_topic()
            return
        self._entries = {
            index: Entry(offset, ends[index]) for index, offset in self._positions.items() if index in ends
        }
        self._producer.begin_transaction()
        for message in messages:
            self._produce(message)
        if self._flush() or self._refused is not None:
            refused = self._refused or KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
            self._producer.abort_transaction(self._timeout_s)
            raise KafkaException(refused)
        # the entries are complete only now: they contain the offsets of the delivered records
        for index, entry in self._entries.items():
            self._note(TopicPartition(self._topic, index), entry)
        self._producer.commit_transaction(self._timeout_s)
        self._account(messages)

    def _flush(self) -> int:
        try:
            return self._producer.flush(self._timeout_s)
        except SystemError:
            # confluent-kafka loses a fatal error raised between delivery callbacks; the next call raises it again
            self._producer.abort_transaction(self._timeout_s)
            raise

    def _check_topic(self) -> None:
        """Raise at once if the source topic was deleted, which librdkafka reports only after half a minute."""
        found = self._consumer.list_topics(self._topic, self._timeout_s).topics[self._topic]
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _GoneError(found.error.str())

    def _gather(self) -> tuple[list[Any], dict[int, int]]:
        """Return the messages of one transaction, and the next offset of each partition with progress."""
        messages, ends = list[Any](), dict[int, int]()
        size_bytes, deadline = 0, time.monotonic() + TRANSACTION_S
        while len(messages) < TRANSACTION_RECORDS and size_bytes < TRANSACTION_BYTES and time.monotonic() < deadline:
            some = self._consumer.consume(CONSUMED_AT_ONCE, CONSUME_S)
            for message in some:
                self._take(message, messages, ends)
                size_bytes += len(message.value() or b"") if message.error() is None else 0
            if self._pass.stopping() or self._has_all(ends):
                break
        return messages, ends

    def _has_all(self, ends: dict[int, int]) -> bool:
        return all(
            ends.get(place.partition, self._positions[place.partition]) >= part.end_offset
            for place, part in self._parts.items()
        )

    def _take(self, message: Any, messages: list[Any], ends: dict[int, int]) -> None:  # noqa: ANN401 - no types
        error = message.error()
        if error is None:
            messages.append(message)
            ends[message.partition()] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            index, end = message.partition(), message.offset()
            if end > ends.get(index, self._positions[index]):
                ends[index] = end
        elif error.code() in _NOT_THERE or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _GoneError(error.str())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            self._skip_deleted(message.partition(), ends)
        else:
            raise KafkaException(error)

    def _skip_deleted(self, index: int, ends: dict[int, int]) -> None:
        """Continue at the source's log start, after the source has deleted the next offset."""
        start, end = self._consumer.get_watermark_offsets(KafkaTopicPartition(self._topic, index), self._timeout_s)
        position = ends.get(index, self._positions[index])
        if start <= position:
            raise PipelineError(f"{self._topic}-{index} ends at the source at {end}, before offset {position}")
        self._deleted[index] = self._deleted.get(index, 0) + start - position
        ends[index] = start
        self._assign({**self._positions, **ends})

    def _produce(self, message: Any) -> None:  # noqa: ANN401 - confluent-kafka has no types
        kind, timestamp_ms = message.timestamp()
        delivered = partial(self._delivered, message.partition(), message.offset())
        self._send(
            self._topic,
            value=message.value(),
            key=message.key(),
            partition=message.partition(),
            timestamp=0 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
            headers=message.headers(),
            on_delivery=delivered,
        )

    def _send(self, topic: str, **record: Any) -> None:  # noqa: ANN401 - what `produce` takes
        while True:
            try:
                self._producer.produce(topic, **record)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, index: int, source_offset: int, error: KafkaError | None, message: Any) -> None:  # noqa: ANN401
        if error is not None:
            if self._refused is None:
                self._refused = error
        else:
            self._entries[index].add(source_offset, message.offset())

    def _note(self, place: TopicPartition, entry: Entry) -> None:
        known = self.maps[place]
        entry.begins = not known.entries
        key = key_of(self._cluster_id, place, entry.source_from)
        self._send(MAP_TOPIC, key=key, value=entry.value(), partition=0)
        known.entries.append(entry)
        while len(known.entries) > MAX_ENTRIES:
            forgotten = known.entries.pop(0)
            self._send(MAP_TOPIC, key=key_of(self._cluster_id, place, forgotten.source_from), value=None, partition=0)

    def _account(self, messages: list[Any]) -> None:
        for message in messages:
            report = self._parts[TopicPartition(self._topic, message.partition())].report
            report.read += 1
            report.written += 1
        for index, entry in self._entries.items():
            report = self._parts[TopicPartition(self._topic, index)].report
            copied = sum(run.length for run in entry.runs)
            deleted = self._deleted.pop(index, 0)
            counts = {RETENTION: deleted, GAPS: entry.source_next - entry.source_from - copied - deleted}
            report.skipped.update({reason: count for reason, count in counts.items() if count})
            report.to_offset = self._positions[index] = entry.source_next
        self._pass.meter.advance(len(messages), sum(len(one.value() or b"") for one in messages))


def _producer_settings(connection: Connection, cluster_id: str, topic: str) -> dict[str, Any]:
    return {
        "compression.type": "lz4",
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "message.max.bytes": MAX_MESSAGE_BYTES,
        "queue.buffering.max.kbytes": 128 * 1024,
        **connection.for_librdkafka(),
        "transactional.id": f"odradek-mirror.{cluster_id}.{topic}",
        "client.id": "odradek-mirror",
    }


def _consumer_settings(connection: Connection) -> dict[str, Any]:
    return {
        "fetch.message.max.bytes": 8 * 1024 * 1024,
        "queued.max.messages.kbytes": 64 * 1024,
        **connection.for_librdkafka(),
        "group.id": "odradek-mirror",
        "client.id": "odradek-mirror",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }
