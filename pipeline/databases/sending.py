"""Commits records and the load's position after them in one Kafka transaction.

The position is a record of a compacted topic of the job. Committed offsets with metadata are not used, because a group
without members loses them after `offsets.retention.minutes`, and the load would start again. The transactional id is
made of the job's name: a load first fences an earlier one, which then cannot commit any more, and only then reads the
position.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.databases.engine import TransientError
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import TopicPartition

LOG: Final = logging.getLogger("odradek.pipeline")
PROGRESS_PREFIX: Final = "odradek-load."
ATTEMPTS: Final = 3
POLL_S: Final = 0.5
_QUEUE_FULL_WAIT_S: Final = 0.1
SETTINGS: Final[Mapping[str, Any]] = {
    "partitioner": "murmur2_random",  # the partition that Java's clients choose for the key
    "linger.ms": 50,
    "compression.type": "lz4",
    "client.id": "odradek-pipeline",
}


class FencedError(PipelineError):
    """Another load of the same job has started; this one has to end."""


class ProgressTopic:
    """The topic with a job's position."""

    def __init__(self, connection: Connection, job: str) -> None:
        self.name = PROGRESS_PREFIX + job
        self._connection = connection

    def prepare(self) -> None:
        """Create the topic if it is missing."""
        with Cluster(self._connection) as cluster:
            if self.name not in cluster.topics():
                cluster.create_topic(self.name, 1, {"cleanup.policy": "compact"})

    def read(self) -> dict[str, Any] | None:
        """Return the last committed position, None if there is none. The job's producer has to be initialised first, so
        that no transaction is open. Raises TransientError if the topic cannot be read to its end in time.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer
        from confluent_kafka import TopicPartition as KafkaTopicPartition

        settings = {
            **self._connection.for_librdkafka(),
            "group.id": self.name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings, logger=LOG)
        try:
            consumer.assign([KafkaTopicPartition(self.name, 0, OFFSET_BEGINNING)])
            return self._last(consumer)
        finally:
            consumer.close()

    def _last(self, consumer: Any) -> dict[str, Any] | None:  # noqa: ANN401 - confluent-kafka has no types
        from confluent_kafka import KafkaError

        deadline = time.monotonic() + self._connection.timeout_s
        found: dict[str, Any] | None = None
        while time.monotonic() < deadline:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if message.error() is None:
                found = json.loads(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                return found
        raise TransientError(f"{self._connection.bootstrap}: the load's position could not be read from {self.name!r}")


class TransactionalSender:
    """The one producer of a job. `sent` counts committed records by partition of the topic."""

    def __init__(self, connection: Connection, job: str, topic: str) -> None:
        self.sent: Counter[int] = Counter()
        self._connection, self._topic, self._job = connection, topic, job
        self._progress = ProgressTopic(connection, job)
        self._producer: Any = None
        self._pending: Counter[int] = Counter()

    def open(self) -> dict[str, Any] | None:
        """Fence earlier loads of the job, and return the committed position. Raises PipelineError."""
        from confluent_kafka import KafkaException, Producer

        self._progress.prepare()
        settings = {
            **SETTINGS,
            **self._connection.for_librdkafka(),
            "transactional.id": self._progress.name,
        }
        try:
            self._producer = Producer(settings, logger=LOG)
        except KafkaException as error:
            raise PipelineError(f"the producer cannot be made: {error.args[0].str()}") from error
        self._retried(lambda: self._producer.init_transactions(self._connection.timeout_s))
        return self._progress.read()

    def send(self, records: Iterable[tuple[bytes | None, bytes]], position: Callable[[int], Mapping[str, Any]]) -> None:
        """Commit the records, in order, together with the position: a document made from their number.

        If the transaction has to be aborted and `records` is a list, it is attempted up to `ATTEMPTS` times. Raises
        FencedError and TransientError, after which the outcome is unknown until a new sender's `open` determines it;
        after any other PipelineError nothing was committed.
        """
        left = ATTEMPTS if isinstance(records, list) else 1
        while True:
            left -= 1
            try:
                self._send_once(records, position)
            except _AbortedError as error:
                if not left:
                    raise PipelineError(
                        f"{self._connection.bootstrap}: {error}; nothing of the batch is there"
                    ) from error
            else:
                self.sent += self._pending
                return

    def _send_once(
        self, records: Iterable[tuple[bytes | None, bytes]], position: Callable[[int], Mapping[str, Any]]
    ) -> None:
        self._pending = Counter()
        self._checked(self._producer.begin_transaction)
        try:
            count = 0
            for count, (key, value) in enumerate(records, 1):  # noqa: B007 - how many there were
                self._produce(self._topic, key, value, self._delivered)
            self._produce(self._progress.name, self._job.encode(), json.dumps(position(count)).encode(), None)
            self._retried(lambda: self._producer.commit_transaction(self._connection.timeout_s))
        except _AbortedError:
            self._abort()
            raise
        except (FencedError, TransientError):
            raise  # this producer is unusable; the next one aborts its open transaction
        except BaseException:
            self._try_abort()
            raise

    def _delivered(self, error: object, message: Any) -> None:  # noqa: ANN401
        if error is None:
            self._pending[message.partition()] += 1

    def _produce(self, topic: str, key: bytes | None, value: bytes, on_delivery: Any) -> None:  # noqa: ANN401
        from confluent_kafka import KafkaException

        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=on_delivery)
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT_S)
            except KafkaException as error:
                raise self._meaning(error.args[0]) from error
            else:
                self._producer.poll(0)
                return

    def _retried(self, call: Any) -> None:  # noqa: ANN401
        """Call until it succeeds, fails permanently or `timeout_s` has passed.

        A repeated call returns the outcome of an earlier one.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._connection.timeout_s
        while True:
            try:
                call()
            except KafkaException as error:
                reason = error.args[0]
                if not reason.retriable() or time.monotonic() > deadline:
                    raise self._meaning(reason) from error
            else:
                return

    def _checked(self, call: Any) -> None:  # noqa: ANN401
        from confluent_kafka import KafkaException

        try:
            call()
        except KafkaException as error:
            raise self._meaning(error.args[0]) from error

    def _abort(self) -> None:
        self._retried(lambda: self._producer.abort_transaction(self._connection.timeout_s))

    def _try_abort(self) -> None:
        """Try to abort before another error is raised; if that fails, the broker aborts after the transaction
        timeout.
        """
        try:
            self._abort()
        except PipelineError as error:
            LOG.warning("the transaction is left to its timeout: %s", error)

    def _meaning(self, reason: Any) -> Exception:  # noqa: ANN401
        from confluent_kafka import KafkaError

        fenced = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}  # noqa: SLF001
        if reason.code() in fenced:
            return FencedError(f"another load of job {self._job!r} has begun and goes on; this one ends")
        if reason.txn_requires_abort():
            return _AbortedError(reason.str())
        hints = {
            KafkaError.MSG_SIZE_TOO_LARGE: " (-X message.max.bytes=… allows more)",
            KafkaError._TIMED_OUT: " (the broker takes nothing: is its disk full? its log says why)",  # noqa: SLF001
        }
        kind = TransientError if reason.retriable() or reason.code() < 0 else PipelineError
        return kind(f"{self._connection.bootstrap}: {reason.str()}{hints.get(reason.code(), '')}")


class _AbortedError(Exception):
    """The transaction has to be aborted, and can be retried."""


def topic_ends(connection: Connection, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of the topic; a missing topic is created with the cluster's defaults."""
    from odradek.pipeline.topic_partition import LATEST

    with Cluster(connection) as cluster:
        if topic not in cluster.topics():
            cluster.create_topic(topic, -1)
        ends = cluster.offsets(dict.fromkeys(_partitions(cluster, topic), LATEST))
    return {place.partition: offset for place, offset in ends.items()}


def _partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    return cluster.partitions([topic])
