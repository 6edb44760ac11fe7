"""`produce` and `consume` over kafka-python, which the extra `cli` installs, and which is slow."""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from odradek.gateway.cli.client import (
    Consumer,
    Producer,
    SentRecord,
    Target,
    TopicPartition,
    library,
    open_consumer,
    open_producer,
    topic_partition,
)
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
from odradek.gateway.cli.errors import CliError, broker_error_text, explained
from odradek.wire.errors import ErrorCode

RECORD_OVERHEAD_BYTES = 300  # memory that an unacknowledged record takes besides its own bytes
BATCH_BYTES = 131_072
MAX_POLL_RECORDS = 2_000
ACCESS = Access(*map(attrgetter, Access._fields))


@contextmanager
def open_sender(target: Target, settings: SendSettings) -> Generator[Sender]:
    """A sender on `target`. The end of the block waits until all records are sent, unless an exception ends it."""
    options = {
        "acks": "all" if settings.acks == "all" else int(settings.acks),
        "enable_idempotence": settings.acks == "all",
        "compression_type": None if settings.codec == "none" else settings.codec,
        "linger_ms": LINGER_MS,
        "batch_size": BATCH_BYTES,
        "max_request_size": settings.max_record_bytes + 1_024,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
    }
    with open_producer(target, **options) as producer:
        if settings.partition is not None:
            require_partition(settings, producer.partitions_for(settings.topic))
        yield KafkaPythonSender(producer, settings)


class KafkaPythonSender:
    """Waits for the oldest acknowledgement whenever too much is unacknowledged."""

    def __init__(self, producer: Producer, settings: SendSettings) -> None:
        self._producer = producer
        self._settings = settings
        self._waiting: deque[tuple[SentRecord, int, int]] = deque()
        self._waiting_bytes = 0
        self._acknowledged = 0

    def send(self, line: int, records: Iterable[OutgoingTuple]) -> None:
        """See `Sender`."""
        for number, record in enumerate(records, line):
            self._send(number, *record)
            while self._waiting and (self._is_full() or self._waiting[0][0].is_done):
                self._settle_oldest()

    def _send(
        self, line: int, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None
    ) -> None:
        size = len(value or b"") + len(key or b"")
        try:
            future = self._producer.send(
                self._settings.topic,
                value=value,
                key=key,
                headers=list(headers),
                partition=self._settings.partition,
                timestamp_ms=timestamp_ms,
            )
        except Exception as error:
            raise self._failure(line, error) from error
        self._waiting.append((future, line, size))
        self._waiting_bytes += size + RECORD_OVERHEAD_BYTES

    def settle(self) -> int:
        """See `Sender`."""
        self._producer.flush()
        while self._waiting:
            self._settle_oldest()
        return self._acknowledged

    def _is_full(self) -> bool:
        return len(self._waiting) > MAX_UNACKNOWLEDGED_RECORDS or self._waiting_bytes > MAX_UNACKNOWLEDGED_BYTES

    def _settle_oldest(self) -> None:
        future, line, size = self._waiting.popleft()
        self._waiting_bytes -= size + RECORD_OVERHEAD_BYTES
        try:
            future.get(timeout=DELIVERY_TIMEOUT_MS / 1000)
        except Exception as error:
            self._waiting.clear()
            raise self._failure(line, error) from error
        self._acknowledged += 1

    def _failure(self, line: int, error: Exception) -> CliError:
        known = explained(error)
        if known is None and not isinstance(error, (ValueError, TypeError, AssertionError)):
            raise error
        return send_failure(line, known.message if known else str(error), self._acknowledged)


@contextmanager
def open_reader(target: Target, settings: ReadSettings) -> Generator[Reader]:
    """A reader on `target`; leaving the block leaves the group."""
    options: dict[str, Any] = {"isolation_level": settings.isolation, "max_poll_records": MAX_POLL_RECORDS}
    if settings.group is not None:
        options["group_id"] = settings.group
    with open_consumer(target, auto_offset_reset=settings.reset, **options) as consumer:
        yield KafkaPythonReader(consumer, target.timeout_ms)


class KafkaPythonReader:
    """A `KafkaConsumer` as a `Reader`; the client requires its own tuples of topic and partition."""

    access = ACCESS

    def __init__(self, consumer: Consumer, timeout_ms: int) -> None:
        self._consumer = consumer
        self._timeout_ms = timeout_ms

    def partitions_of(self, topic: str) -> Collection[int]:
        """See `Reader`."""
        return self._consumer.partitions_for_topic(topic) or ()

    def first_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        return _led(self._consumer.beginning_offsets, partitions)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        return _led(self._consumer.end_offsets, partitions)

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """See `Reader`."""
        found = self._consumer.offsets_for_times(dict.fromkeys(_own(partitions), time_ms))
        return {tp: answer.offset for tp, answer in found.items() if answer is not None and answer.offset >= 0}

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """See `Reader`."""
        own = _own(starts)
        self._consumer.assign(own)
        for partition in own:
            self._consumer.seek(partition, starts[partition])

    def subscribe(self, topic: str, releasing: Releasing) -> None:
        """See `Reader`."""
        self._consumer.subscribe([topic], listener=_listener(self._consumer, releasing))

    def is_settled(self) -> bool:
        """See `Reader`."""
        return self._consumer.group_metadata().state == "<stable>"

    def assignment(self) -> Collection[TopicPartition]:
        """See `Reader`."""
        return self._consumer.assignment()

    def position(self, partition: TopicPartition, timeout_ms: int) -> int | None:
        """See `Reader`."""
        return self._consumer.position(topic_partition(*partition), timeout_ms=timeout_ms)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `Reader`."""
        self._consumer.pause(*_own(partitions))

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """See `Reader`."""
        try:
            return self._consumer.poll(timeout_ms, max_records=min(max_records, MAX_POLL_RECORDS))
        except library().errors.KafkaError as error:
            raise error.__cause__ or error from None  # an error of the listener is the cause of this one

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Reader`."""
        try:
            self._consumer.commit(_own_offsets(offsets), timeout_ms=self._timeout_ms)
        except library().errors.KafkaError as error:
            if _is_refusal(error):
                raise CommitRefusedError from error
            raise


def _own(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    return [topic_partition(*partition) for partition in partitions]


def _led(
    offsets_of: Callable[[Sequence[TopicPartition]], dict[TopicPartition, int]], partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Request offsets. Raises CliError for a partition without a leader, for which kafka-python 3.0 raises KeyError."""
    try:
        return offsets_of(_own(partitions))
    except KeyError as error:
        topic, index = error.args[0]
        raise CliError(f"{topic}-{index}: {broker_error_text(ErrorCode.LEADER_NOT_AVAILABLE)}") from error


def _own_offsets(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
    committed = library().OffsetAndMetadata
    return {topic_partition(*tp): committed(offset, "", -1) for tp, offset in offsets.items()}


def _is_refusal(error: Any) -> bool:  # noqa: ANN401 - kafka-python has no types
    return isinstance(error, library().errors.CommitFailedError) or getattr(error, "errno", 0) in REFUSALS


def _keep_joining(consumer: Any) -> None:  # noqa: ANN401 - kafka-python has no types
    """Make `poll` continue a join that takes longer than the poll that began it.

    kafka-python 3.0 loses a join that it began because a topic's partitions changed when that poll times out: once the
    leader has seen the new partitions, the next poll finds no reason to join, so that the consumer never again gets an
    assignment, sends a heartbeat or fetches. No public method requests a join.
    """
    consumer._coordinator.request_rejoin()  # noqa: SLF001


def _listener(consumer: Consumer, releasing: Releasing) -> Any:  # noqa: ANN401 - kafka-python has no types
    kind: Any = library().AsyncConsumerRebalanceListener

    class Listener(kind):
        """Called in the client's I/O thread, where the client refuses calls that block, such as `commit`."""

        async def on_partitions_revoked(self, revoked: object) -> None:
            _keep_joining(consumer)
            offsets, refused = releasing.revoked(), False
            try:
                if offsets:
                    await consumer.commit_async(_own_offsets(offsets))
            except library().errors.KafkaError as error:
                # while the coordinator moves it accepts no offsets, and the rebalance does not wait for a retry
                if not (_is_refusal(error) or error.retriable):
                    raise
                refused = True
            releasing.committed(refused=refused)

        async def on_partitions_lost(self, lost: object) -> None:
            releasing.lost()

        async def on_partitions_assigned(self, assigned: object) -> None:
            pass

    return Listener()
