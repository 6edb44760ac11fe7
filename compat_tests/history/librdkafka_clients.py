"""librdkafka with the interfaces of `workers`; transactions are of `transaction.version` 1, all that it supports."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.history.workers import ClientError, Target

TIMEOUT_S = 30
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none"}
SOON = {"socket.timeout.ms": 5_000, "topic.metadata.refresh.interval.ms": 5_000}
"""Settings with which a client tries another broker sooner than by default: after 5 s instead of 60 s if a broker does
not answer, and after 5 s instead of 5 minutes if a broker that is cut off from the others returns no new records."""
CLIENT = {**QUIET, **SOON}
PRODUCER = {**CLIENT, "request.timeout.ms": 5_000}


class Transactional:
    """A producer with a transactional id; a new one fences its predecessor. Raises ClientError."""

    def __init__(self, target: Target, transactional_id: str) -> None:
        self._topic = target.topic
        settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 8_000, "linger.ms": 1}
        self._producer = Producer({"bootstrap.servers": target.bootstrap, **PRODUCER, **settings})
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

        self._once(lambda: self._producer.produce(self._topic, value.encode(), partition=partition, on_delivery=report))

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
        """Call up to four times while librdkafka reports a retriable error."""
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

    def __init__(self, target: Target) -> None:
        self._topic = target.topic
        settings = {"enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer({"bootstrap.servers": target.bootstrap, **PRODUCER, **settings})

    def send(self, partition: int, value: str) -> int:
        reports: list[tuple[KafkaError | None, Any]] = []
        self._producer.produce(
            self._topic,
            value.encode(),
            partition=partition,
            on_delivery=lambda error, sent: reports.append((error, sent)),
        )
        self._producer.flush(TIMEOUT_S)
        if not reports or reports[0][0] is not None:
            raise ClientError(str(reports))
        return reports[0][1].offset()

    def close(self) -> None:
        self._producer.purge()


READING: dict[str, Any] = {"isolation.level": "read_committed", "enable.auto.commit": False}


class Progress:
    """The time since a consumer last read a record."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._last = time.monotonic()

    def check(self, is_reading: bool) -> None:
        """Called after each poll. Raises ClientError after `stalled_after_s` without a record."""
        now = time.monotonic()
        if is_reading:
            self._last = now
        limit_s = self._target.stalled_after_s
        if limit_s is not None and now - self._last > limit_s:
            raise ClientError(f"nothing read for {now - self._last:.0f} s")


class Reading:
    """A read_committed consumer of all partitions from the beginning. Raises ClientError."""

    def __init__(self, target: Target) -> None:
        self._topic = target.topic
        self._progress = Progress(target)
        self._consumer = Consumer({"bootstrap.servers": target.bootstrap, **CLIENT, **READING, "group.id": "history"})
        places = [TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in target.keys]
        self._consumer.assign(places)

    def poll(self) -> list[tuple[int, int, str]]:
        found = _polled(self._consumer)
        self._progress.check(bool(found))
        return found

    def position(self, partition: int) -> int:
        """The offset of the next poll; -1 before the first record."""
        [place] = self._consumer.position([TopicPartition(self._topic, partition)])
        return max(place.offset, -1)

    def close(self) -> None:
        self._consumer.close()


class Member:
    """A read_committed member of a group of either protocol (`classic`, `consumer`)."""

    def __init__(self, target: Target, group: str, protocol: str, session_timeout_ms: int = 6_000) -> None:
        settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        if protocol == "classic":
            settings["session.timeout.ms"] = session_timeout_ms
        self._consumer = Consumer({"bootstrap.servers": target.bootstrap, **CLIENT, **READING, **settings})
        self._given: set[int] = set()
        self._has_read = False
        self._progress = Progress(target)
        self._consumer.subscribe([target.topic], on_assign=self._on_assign)

    def _on_assign(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._given |= {place.partition for place in places}

    def poll(self) -> list[tuple[int, int, str]]:
        if self._has_read:
            self._commit()
        found = _polled(self._consumer)
        self._has_read = bool(found)
        self._progress.check(self._has_read)
        return found

    def _commit(self) -> None:
        """Commit the records that were returned; if that fails, they are read again after the next assignment."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].fatal():
                raise ClientError(str(error)) from error

    def assigned_anew(self) -> set[int]:
        given, self._given = self._given, set()
        return given

    def close(self) -> None:
        self._consumer.close()


def _polled(consumer: Consumer) -> list[tuple[int, int, str]]:
    """The records that arrive within 0.2 s. Raises ClientError for a fatal error."""
    found: list[tuple[int, int, str]] = []
    for each in consumer.consume(200, timeout=0.2):
        error = each.error()
        if error is None:
            found.append((each.partition(), each.offset(), each.value().decode()))
        elif error.fatal():
            raise ClientError(str(error))
    return found
