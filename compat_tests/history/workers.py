"""Clients that record a history: each is a thread that runs until `finish`, through all faults of brokers.

If the outcome of a producer's operation is in doubt, it is UNKNOWN: only a transaction for which no commit was ever
requested is certain to have FAILED. Values are unique: the process's name and a number.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from compat_tests.history.recorder import Recorder
from odradek.gateway.testing.history.operations import Key, Outcome, Read, Sent


@dataclass(slots=True)
class Target:
    """The topic that the clients use. A new client bootstraps from the brokers in `bootstrap`.

    With `stalled_after_s`, a librdkafka consumer that has read nothing for as long is replaced with a new client.
    """

    bootstrap: str
    topic: str
    partitions: int
    stalled_after_s: float | None = None

    def key(self, partition: int) -> Key:
        """A partition's key in the history."""
        return (self.topic, partition)

    @property
    def keys(self) -> list[Key]:
        """All partitions."""
        return [self.key(partition) for partition in range(self.partitions)]


class ClientError(Exception):
    """An operation of the client has failed; the caller aborts its transaction, or creates a new client."""


class TransactionalClient(Protocol):
    """A transactional producer. Every method raises ClientError."""

    def begin(self) -> None: ...
    def send(self, partition: int, value: str) -> None: ...
    def sent_offsets(self) -> list[int | None]:
        """The offsets of all records sent in this transaction, in order; waits for the acknowledgements."""
        ...

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class PlainClient(Protocol):
    """An idempotent producer outside of transactions."""

    def send(self, partition: int, value: str) -> int:
        """Send a record and return its offset. Raises ClientError."""
        ...

    def close(self) -> None: ...


class ReadingClient(Protocol):
    """A read_committed consumer of all partitions, from the beginning."""

    def poll(self) -> list[tuple[int, int, str]]:
        """The (partition, offset, value) of each record that arrived. Raises ClientError."""
        ...

    def close(self) -> None: ...


class MemberClient(ReadingClient, Protocol):
    """A read_committed member of a group, which commits what `poll` has returned with the next `poll`."""

    def assigned_anew(self) -> set[int]:
        """The partitions that it was assigned since the last call."""
        ...


C = TypeVar("C", TransactionalClient, PlainClient, ReadingClient, MemberClient)


class Worker(ABC, threading.Thread, Generic[C]):
    """Repeats `work` with a client from `make` until `finish`; after a ClientError it makes a new client."""

    is_transactional = False

    def __init__(self, process: str, recorder: Recorder, target: Target, make: Callable[[], C]) -> None:
        super().__init__(name=process, daemon=True)
        self.process, self.recorder, self.target = process, recorder, target
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.last_error = ""
        self._make = make
        self._client: C | None = None
        self._chance = random.Random(process)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._work_once()
                except ClientError as error:
                    self.last_error = str(error)
                    self._leave()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error
        finally:
            self._leave()

    @property
    def state(self) -> str:
        """Whether the thread has ended, and the client's last error, for a report."""
        ended = "" if self.is_alive() else f"has ended with {self.failure!r}, "
        return f"{ended}last error of the client: {self.last_error or 'none'}"

    def _work_once(self) -> None:
        if self._client is None:
            self._client = self._make()
            self.on_new_client()
        self.work(self._client)

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def on_new_client(self) -> None:
        """Called with each new client, before its first operation."""

    @abstractmethod
    def work(self, client: C) -> None:
        """Run one operation and record it in the history. May raise ClientError."""

    def finish(self) -> None:
        """Stop after the operation that is under way. Raises the error that ended the worker, if any."""
        self.stopping.set()
        self.join(90)
        assert not self.is_alive(), f"{self.process} does not end"
        if self.failure is not None:
            raise self.failure


class TransactionWorker(Worker[TransactionalClient]):
    """Transactions of one to four records over the partitions; every fourth is aborted."""

    is_transactional = True
    _number = 0

    def work(self, client: TransactionalClient) -> None:
        planned = [
            (self._chance.randrange(self.target.partitions), self._value()) for _ in range(self._chance.randint(1, 4))
        ]
        began, transaction = self.recorder.now(), _Transaction(client, self.target, planned)
        self.recorder.intends(self.process, began, transaction.sends())
        try:
            transaction.run(commits=self._chance.randrange(4) > 0)
        finally:
            self.recorder.note(self.process, transaction.outcome, began, transaction.sends())

    def _value(self) -> str:
        self._number += 1
        return f"{self.process}.{self._number}"


class _Transaction:
    """One transaction and its outcome so far. After the first error it is aborted."""

    def __init__(self, client: TransactionalClient, target: Target, planned: list[tuple[int, str]]) -> None:
        self._client, self._target, self._planned = client, target, planned
        self._offsets: list[int | None] = [None] * len(planned)
        self.outcome = Outcome.FAILED

    def sends(self) -> list[Sent]:
        return [
            Sent(self._target.key(partition), value, offset)
            for (partition, value), offset in zip(self._planned, self._offsets, strict=True)
        ]

    def run(self, *, commits: bool) -> None:
        """Run the transaction. Raises ClientError if the client cannot be used any more."""
        client = self._client
        client.begin()
        try:
            for partition, value in self._planned:
                client.send(partition, value)
            self._offsets = client.sent_offsets()
            if commits:
                self.outcome = Outcome.UNKNOWN
                client.commit()
                self.outcome = Outcome.OK
                return
        except ClientError:
            client.abort()
            return
        client.abort()


class PlainWorker(Worker[PlainClient]):
    """Sends one record at a time, outside of transactions; after an error its outcome is UNKNOWN."""

    _number = 0

    def work(self, client: PlainClient) -> None:
        self._number += 1
        partition, value = self._chance.randrange(self.target.partitions), f"{self.process}.{self._number}"
        outcome = Outcome.UNKNOWN
        began, offset = self.recorder.now(), None
        self.recorder.intends(self.process, began, [Sent(self.target.key(partition), value)])
        try:
            offset = client.send(partition, value)
            outcome = Outcome.OK
        finally:
            self.recorder.note(self.process, outcome, began, [Sent(self.target.key(partition), value, offset)])


class ReadWorker(Worker[ReadingClient]):
    """Polls. A new client starts from the beginning again, which is recorded as an assignment."""

    def on_new_client(self) -> None:
        self.recorder.note(self.process, Outcome.UNKNOWN, self.recorder.now(), assigned=self.target.keys)

    def work(self, client: ReadingClient) -> None:
        began = self.recorder.now()
        found = client.poll()
        if found:
            self.recorder.note(self.process, Outcome.OK, began, _reads(self.target, found))


class MemberWorker(Worker[MemberClient]):
    """Polls as a member of a group; records newly assigned partitions."""

    def work(self, client: MemberClient) -> None:
        began = self.recorder.now()
        found = client.poll()
        assigned = [self.target.key(partition) for partition in client.assigned_anew()]
        if found or assigned:
            outcome = Outcome.OK if found else Outcome.UNKNOWN
            self.recorder.note(self.process, outcome, began, _reads(self.target, found), assigned=assigned)


def _reads(target: Target, found: list[tuple[int, int, str]]) -> list[Read]:
    return [Read(target.key(partition), offset, value) for partition, offset, value in found]
