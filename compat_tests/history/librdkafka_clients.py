"""librdkafka as `workers` want it: transaction.version 1, for it knows no other."""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.history.workers import PARTITIONS, TOPIC, ClientError

TIMEOUT_S = 30
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none"}


class Transactional:
    """A producer with a transactional id; making one fences its predecessor. Raises ClientError."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 8_000, "linger.ms": 1}
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **settings})
        self._reports: list[tuple[KafkaError | None, Any]] = []
        self._retrying(self._producer.init_transactions)

    def begin(self) -> None:
        self._reports = []
        self._once(self._producer.begin_transaction)

    def send(self, partition: int, value: str) -> None:
        place = len(self._reports)
        self._reports.append((None, None))

        def report(error: KafkaError | None, message: Any) -> None:
            self._reports[place] = (error, message)

        self._once(lambda: self._producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=report))

    def sent_offsets(self) -> list[int | None]:
        self._once(lambda: self._producer.flush(TIMEOUT_S))
        if any(error is not None or message is None for error, message in self._reports):
            raise ClientError(str(self._reports))
        return [message.offset() for _, message in self._reports]

    def commit(self) -> None:
        self._retrying(self._producer.commit_transaction)

    def abort(self) -> None:
        self._retrying(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.purge()

    def _retrying(self, call: Any) -> None:
        """Again while librdkafka says that asking again is right."""
        for _ in range(4):
            try:
                call(TIMEOUT_S)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise ClientError(str(error)) from error
                continue
            return
        raise ClientError("no end of retries")

    @staticmethod
    def _once(call: Any) -> None:
        try:
            call()
        except KafkaException as error:
            raise ClientError(str(error)) from error


class Plain:
    """An idempotent producer. Raises ClientError."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **settings})

    def send(self, partition: int, value: str) -> int:
        reports: list[tuple[KafkaError | None, Any]] = []
        self._producer.produce(
            TOPIC, value.encode(), partition=partition, on_delivery=lambda error, sent: reports.append((error, sent))
        )
        self._producer.flush(TIMEOUT_S)
        if not reports or reports[0][0] is not None:
            raise ClientError(str(reports))
        return reports[0][1].offset()

    def close(self) -> None:
        self._producer.purge()


class Reading:
    """A read_committed consumer of all partitions from the beginning. Raises ClientError."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"group.id": "history", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **QUIET, **settings})
        self._consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])

    def poll(self) -> list[tuple[int, int, str]]:
        messages = self._consumer.consume(200, timeout=0.2)
        return [(each.partition(), each.offset(), each.value().decode()) for each in messages if each.error() is None]

    def position(self, partition: int) -> int:
        """Where the next poll begins, -1 before anything was read."""
        [place] = self._consumer.position([TopicPartition(TOPIC, partition)])
        return max(place.offset, -1)

    def close(self) -> None:
        self._consumer.close()
