"""Java's clients with the interfaces of `workers`; transactions are of `transaction.version` 2."""

from __future__ import annotations

from typing import Any

from compat_tests.history.workers import ClientError, Target
from compat_tests.java_clients import JavaConsumer, JavaError, JavaProducer, JavaVm

PASSING = frozenset({"CommitFailedException", "RebalanceInProgressException", "TimeoutException"})
"""Errors after which a commit has no effect; its records are read again after the next assignment."""

SOON = {"request_timeout_ms": "5000", "metadata_max_age_ms": "5000", "reconnect_backoff_max_ms": "200"}
"""Settings with which a client tries another broker sooner than by default: after 5 s instead of 30 s if a broker does
not answer, and after 5 s instead of 5 minutes if a broker that is cut off from the others returns no new records."""
PRODUCER = {**SOON, "delivery_timeout_ms": "20000"}
CONSUMER = {**SOON, "isolation_level": "read_committed", "max_poll_records": "200"}


class Transactional:
    """A producer with a transactional id; a new one fences its predecessor. Raises ClientError."""

    def __init__(self, java: JavaVm, target: Target, transactional_id: str) -> None:
        self._topic = target.topic
        settings = {"transaction_timeout_ms": "8000", "max_block_ms": "20000"}
        self._producer = JavaProducer(java, target.bootstrap, transactional_id, **PRODUCER, **settings)
        self._sent: list[Any] = []
        try:
            self._once(self._producer.init)
        except ClientError:
            self._producer.close()
            raise

    def begin(self) -> None:
        self._sent = []
        self._once(self._producer.begin)

    def send(self, partition: int, value: str) -> None:
        self._sent.append(self._once(lambda: self._producer.send(self._topic, partition, value)))

    def sent_offsets(self) -> list[int | None]:
        return [self._once(lambda sent=sent: self._producer.offset_of(sent)) for sent in self._sent]

    def commit(self) -> None:
        self._once(lambda: self._producer.end(committed=True))

    def abort(self) -> None:
        self._once(lambda: self._producer.end(committed=False))

    def close(self) -> None:
        self._producer.close()

    @staticmethod
    def _once(call: Any) -> Any:
        try:
            return call()
        except JavaError as error:
            raise ClientError(str(error)) from error


class Plain:
    """An idempotent producer. Raises ClientError."""

    def __init__(self, java: JavaVm, target: Target) -> None:
        self._topic = target.topic
        self._producer = JavaProducer(java, target.bootstrap, None, **PRODUCER)

    def send(self, partition: int, value: str) -> int:
        try:
            return self._producer.offset_of(self._producer.send(self._topic, partition, value))
        except JavaError as error:
            raise ClientError(str(error)) from error

    def close(self) -> None:
        self._producer.close()


class Reading:
    """A read_committed consumer of all partitions from the beginning. Raises ClientError."""

    def __init__(self, java: JavaVm, target: Target) -> None:
        self._consumer = JavaConsumer(java, target.bootstrap, **CONSUMER)
        self._consumer.assign_from_beginning(target.topic, target.partitions)

    def poll(self) -> list[tuple[int, int, str]]:
        try:
            return self._consumer.poll()
        except JavaError as error:
            raise ClientError(str(error)) from error

    def close(self) -> None:
        self._consumer.close()


class Member:
    """A read_committed member of a group of either protocol (`classic`, `consumer`). Raises ClientError."""

    def __init__(self, java: JavaVm, target: Target, group: str, protocol: str) -> None:
        settings = dict(CONSUMER)
        if protocol == "classic":
            settings["session_timeout_ms"] = "6000"
        settings |= {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest"}
        self._consumer = JavaConsumer(java, target.bootstrap, **settings)
        self._consumer.subscribe(target.topic)
        self._owned: set[int] = set()
        self._given: set[int] = set()
        self._has_read = False

    def poll(self) -> list[tuple[int, int, str]]:
        try:
            if self._has_read:
                self._consumer.commit()
        except JavaError as error:
            if error.name not in PASSING:
                raise ClientError(str(error)) from error
        try:
            found = self._consumer.poll()
            owned = self._consumer.assigned()
        except JavaError as error:
            raise ClientError(str(error)) from error
        self._given |= owned - self._owned
        self._owned, self._has_read = owned, bool(found)
        return found

    def assigned_anew(self) -> set[int]:
        given, self._given = self._given, set()
        return given

    def close(self) -> None:
        self._consumer.close()
