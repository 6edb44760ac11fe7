"""`produce` and `consume` over confluent-kafka: librdkafka, an order of magnitude faster than kafka-python."""

import gc
import importlib
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from odradek.gateway.cli.client import Target, TopicPartition, check_reachable, silent_broker
from odradek.gateway.cli.clients.interface import (
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    MAX_UNACKNOWLEDGED_BYTES,
    MAX_UNACKNOWLEDGED_RECORDS,
    REFUSALS,
    Access,
    CommitRefusedError,
    Headers,
    OutgoingTuple,
    Reader,
    ReadSettings,
    Releasing,
    Sender,
    SendSettings,
    require_partition,
    send_failure,
)
from odradek.gateway.cli.clients.translation import translated
from odradek.gateway.cli.errors import CliError, confluent_error_text

EARLIEST, LATEST = -2, -1  # the timestamps that request the first and the end offset in ListOffsets
ANY_PARTITION = -1
LARGEST_BATCH_BYTES = 1_000_000  # below Kafka's default max.message.bytes; small batches cost the broker a sync each
QUEUE_PAUSE_S = 0.05
COLLECT_EVERY_OBJECTS = 100_000
FETCH_AGAIN_AFTER_MS = 5  # librdkafka's default, 1 s after a full queue, is longer than printing the queue takes


def library() -> Any:  # noqa: ANN401 - older versions have no types
    """The `confluent_kafka` package; raises ImportError where it is not installed."""
    return importlib.import_module("confluent_kafka")


@contextmanager
def _collecting_seldom() -> Generator[None]:
    """Run the garbage collector seldom: records form no cycles, and looking for cycles takes 10% of the time."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _common(target: Target) -> dict[str, Any]:
    check_reachable(target)
    settings = {"bootstrap.servers": target.bootstrap, "client.id": "odradek-cli", **translated(target.properties)}
    if _logger().isEnabledFor(logging.DEBUG):
        settings["debug"] = "generic,broker,cgrp,topic,metadata"
    return settings


def _logger() -> logging.Logger:
    logger = logging.getLogger("confluent_kafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # the command reports errors itself; the log is for --verbose
    return logger


def _construct(client: Callable[..., Any], settings: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        return client(dict(settings), logger=_logger())
    except (library().KafkaException, ValueError, TypeError) as error:
        raise CliError(_text(error)) from error


def _text(error: Exception) -> str:
    return confluent_error_text(error.args[0]) if isinstance(error, library().KafkaException) else str(error)


@contextmanager
def _answering(target: Target) -> Generator[None]:
    """Turn an error for a request that no broker answered into `UnreachableError`."""
    kafka = library()
    try:
        yield
    except kafka.KafkaException as error:
        silent = {kafka.KafkaError._TRANSPORT, kafka.KafkaError._TIMED_OUT, kafka.KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001
        if error.args[0].code() in silent:
            raise silent_broker(target) from error
        raise


@contextmanager
def open_sender(target: Target, settings: SendSettings) -> Generator[Sender]:
    """A sender on `target`. The end of the block waits until all records are sent, unless an exception ends it."""
    options = {
        "acks": settings.acks,
        "enable.idempotence": settings.acks == "all",
        "compression.type": settings.codec,
        "linger.ms": LINGER_MS,
        "batch.size": min(max(settings.max_record_bytes, 1_024), LARGEST_BATCH_BYTES),
        "message.max.bytes": settings.max_record_bytes + 1_024,
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        "topic.metadata.propagation.max.ms": target.timeout_ms,
        "partitioner": "murmur2_random",  # the partition of a key is the same as in Java's and kafka-python's clients
        "queue.buffering.max.messages": MAX_UNACKNOWLEDGED_RECORDS,
        "queue.buffering.max.kbytes": max(MAX_UNACKNOWLEDGED_BYTES, 2 * settings.max_record_bytes) // 1024,
        "delivery.report.only.error": True,
    }
    producer = _construct(library().Producer, {**options, **_common(target)})
    sender = ConfluentSender(producer, settings)
    try:
        with _answering(target):
            found = producer.list_topics(settings.topic, timeout=target.timeout_ms / 1000)
        require_partition(settings, found.topics[settings.topic].partitions)
        with _collecting_seldom():
            yield sender
        sender.settle()
    except BaseException:
        producer.purge()
        producer.flush(0)
        raise


class ConfluentSender:
    """Delivery reports come only for failed records: a record that is neither failed nor queued is acknowledged."""

    def __init__(self, producer: Any, settings: SendSettings) -> None:  # noqa: ANN401
        self._producer = producer
        self._send = partial(producer.produce, settings.topic)
        self._partition = ANY_PARTITION if settings.partition is None else settings.partition
        self._refusal = library().KafkaException
        self._handed = 0
        self._failed: dict[int, str] = {}

    def send(self, line: int, records: Iterable[OutgoingTuple]) -> None:
        """See `Sender`."""
        send, partition, report = self._send, self._partition, self._report
        for number, (value, key, headers, timestamp_ms) in enumerate(records, line):
            try:
                if headers or timestamp_ms is not None:
                    self._send_whole(number, value, key, headers, timestamp_ms)
                else:
                    send(value, key, partition, on_delivery=partial(report, number))
            except BufferError:
                self._send_when_room(number, value, key, headers, timestamp_ms)
            except (self._refusal, TypeError, ValueError, OverflowError) as error:
                raise send_failure(number, _text(error), self._acknowledged()) from error
            self._handed += 1
        self._serve(0)

    def _send_whole(
        self, line: int, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None
    ) -> None:
        if timestamp_ms == 0:
            raise ValueError("confluent-kafka cannot send the timestamp 0; use --client kafka-python")
        self._send(
            value,
            key,
            self._partition,
            on_delivery=partial(self._report, line),
            timestamp=timestamp_ms or 0,
            headers=list(headers),
        )

    def _send_when_room(
        self, line: int, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None
    ) -> None:
        while True:
            self._serve(QUEUE_PAUSE_S)
            try:
                return self._send_whole(line, value, key, headers, timestamp_ms)
            except BufferError:
                continue

    def settle(self) -> int:
        """See `Sender`."""
        while len(self._producer):
            self._producer.flush(QUEUE_PAUSE_S)
            self._serve(0)
        self._serve(0)
        return self._acknowledged()

    def _acknowledged(self) -> int:
        return self._handed - len(self._producer) - len(self._failed)

    def _report(self, line: int, error: Any, _message: object) -> None:  # noqa: ANN401
        self._failed[line] = confluent_error_text(error)

    def _serve(self, pause_s: float) -> None:
        """Run delivery callbacks for up to `pause_s`; raises the error of the first line that failed."""
        self._producer.poll(pause_s)
        if self._failed:
            first = min(self._failed)
            raise send_failure(first, self._failed[first], self._acknowledged())


def _headers(record: Any) -> Sequence[tuple[str, bytes | None]]:  # noqa: ANN401
    return record.headers() or ()


def _timestamp(record: Any) -> int:  # noqa: ANN401
    return record.timestamp()[1]


@contextmanager
def open_reader(target: Target, settings: ReadSettings) -> Generator[Reader]:
    """A reader on `target`; leaving the block leaves the group."""
    options = {
        "group.id": settings.group or "odradek-cli",  # the client requires one; nothing is committed to it
        "auto.offset.reset": settings.reset,
        "isolation.level": settings.isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": FETCH_AGAIN_AFTER_MS,
    }
    consumer = _construct(library().Consumer, {**options, **_common(target)})
    try:
        with _collecting_seldom():
            yield ConfluentReader(consumer, target)
    finally:
        consumer.close()


class ConfluentReader:
    """A `confluent_kafka.Consumer` as a `Reader`. Events for the ends of partitions keep `position` correct."""

    def __init__(self, consumer: Any, target: Target) -> None:  # noqa: ANN401
        self._consumer = consumer
        self._target = target
        self._kafka = library()
        self._assigned: dict[TopicPartition, int | None] = {}
        self._settled = False
        message: Any = self._kafka.Message
        self.access = Access(
            message.topic, message.partition, message.offset, _timestamp, message.key, message.value, _headers
        )

    def partitions_of(self, topic: str) -> Collection[int]:
        """See `Reader`."""
        with _answering(self._target):
            found = self._consumer.list_topics(topic, timeout=self._target.timeout_ms / 1000).topics[topic]
        if found.error is not None and found.error.code() not in {3, 5}:  # unknown topic, or no leader at the moment
            raise CliError(f"topic {topic!r}: {confluent_error_text(found.error)}")
        return found.partitions

    def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        return self._list_offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        return self._list_offsets(partitions, LATEST)

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        return {tp: offset for tp, offset in self._list_offsets(partitions, time_ms).items() if offset >= 0}

    def _list_offsets(self, partitions: Sequence[TopicPartition], at: int) -> Mapping[TopicPartition, int]:
        asked = [self._kafka.TopicPartition(*tp, at) for tp in partitions]
        with _answering(self._target):
            found = self._consumer.offsets_for_times(asked, timeout=self._target.timeout_ms / 1000)
        for each in found:
            if each.error is not None:
                raise CliError(f"{each.topic}-{each.partition}: {confluent_error_text(each.error)}")
        return {TopicPartition(each.topic, each.partition): each.offset for each in found}

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """See `Reader`."""
        self._consumer.assign([self._kafka.TopicPartition(*tp, offset) for tp, offset in starts.items()])
        self._assigned |= starts
        self._settled = True

    def subscribe(self, topic: str, releasing: Releasing) -> None:
        """See `Reader`."""

        def on_assign(_consumer: object, partitions: Sequence[Any]) -> None:
            self._assigned |= dict.fromkeys(map(_plain, partitions))
            self._settled = True

        def on_release(release: Callable[[], None], _consumer: object, partitions: Sequence[Any]) -> None:
            release()
            for partition in map(_plain, partitions):
                self._assigned.pop(partition, None)
            self._settled = False

        released = partial(on_release, partial(self._commit_released, releasing))
        lost = partial(on_release, releasing.lost)
        self._consumer.subscribe([topic], on_assign=on_assign, on_revoke=released, on_lost=lost)

    def _commit_released(self, releasing: Releasing) -> None:
        refused = False
        try:
            if offsets := releasing.revoked():
                self.commit(offsets)
        except CommitRefusedError:
            refused = True
        releasing.committed(refused=refused)

    def is_settled(self) -> bool:
        """See `Reader`."""
        return self._settled

    def assignment(self) -> Collection[TopicPartition]:
        """See `Reader`."""
        return self._assigned.keys()

    def position(self, partition: TopicPartition, timeout_ms: int) -> int | None:
        """See `Reader`."""
        return self._assigned[partition]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `Reader`."""
        self._consumer.pause([self._kafka.TopicPartition(*tp) for tp in partitions])

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """See `Reader`."""
        first = self._consumer.poll(timeout_ms / 1000)
        if first is None:
            return {}
        found: dict[TopicPartition, list[Any]] = {}
        # a timeout above 0 would delay records that have already arrived
        for message in (first, *(self._consumer.consume(max_records - 1, 0) if max_records > 1 else ())):
            if message.error() is None:
                found.setdefault(message.partition(), []).append(message)
            else:
                self._on_event(message)
        return {self._advanced(records): records for records in found.values()}

    def _advanced(self, records: Sequence[Any]) -> TopicPartition:
        last = records[-1]
        partition = TopicPartition(last.topic(), last.partition())
        self._reached(partition, last.offset() + 1)
        return partition

    def _on_event(self, message: Any) -> None:  # noqa: ANN401
        error, codes = message.error(), self._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:  # noqa: SLF001
            self._reached(_plain_of(message), message.offset())
        elif error.code() != codes._MAX_POLL_EXCEEDED and not error.retriable():  # noqa: SLF001
            raise self._kafka.KafkaException(error)

    def _reached(self, partition: TopicPartition, offset: int) -> None:
        if partition in self._assigned:
            self._assigned[partition] = max(offset, self._assigned[partition] or 0)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Reader`."""
        wanted = [self._kafka.TopicPartition(*tp, offset) for tp, offset in offsets.items()]
        try:
            stored = self._consumer.commit(offsets=wanted, asynchronous=False)
        except self._kafka.KafkaException as error:
            if error.args[0].code() in REFUSALS:
                raise CommitRefusedError from error
            raise
        for each in stored:
            if each.error is not None:
                raise CliError(f"{each.topic}-{each.partition}: {confluent_error_text(each.error)}")


def _plain(partition: Any) -> TopicPartition:  # noqa: ANN401
    return TopicPartition(partition.topic, partition.partition)


def _plain_of(message: Any) -> TopicPartition:  # noqa: ANN401
    return TopicPartition(message.topic(), message.partition())
