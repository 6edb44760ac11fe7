"""Clients that make a history: each a thread that works until it is told to stop, whatever happens to the broker.

A producer that is in doubt says so (`info`): only a transaction for which no commit was ever asked is sure to have
failed. Values are unique: the process's name and a number.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from compat_tests.history.operations import Key, Outcome, Read, Send
from compat_tests.history.recorder import Recorder

TOPIC = "history"
PARTITIONS = 3


class ClientError(Exception):
    """The client gave an operation up; its transaction may be aborted, unless the client has to be made anew."""


class TransactionalClient(Protocol):
    """A transactional producer. Every method raises ClientError."""

    def begin(self) -> None: ...
    def send(self, partition: int, value: str) -> None: ...
    def sent_offsets(self) -> list[int | None]:
        """Of everything sent in this transaction, in order; waits for the acknowledgements."""
        ...

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class PlainClient(Protocol):
    """An idempotent producer outside of transactions."""

    def send(self, partition: int, value: str) -> int:
        """The offset. Raises ClientError."""
        ...

    def close(self) -> None: ...


class ReadingClient(Protocol):
    """A read_committed consumer of all partitions, from the beginning."""

    def poll(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of what came. Raises ClientError."""
        ...

    def close(self) -> None: ...


C = TypeVar("C", TransactionalClient, PlainClient, ReadingClient)


def key_of(partition: int) -> Key:
    """A partition's name in the history."""
    return f"{TOPIC}-{partition}"


class Worker(ABC, threading.Thread, Generic[C]):
    """Repeats `work` with the client that `make` makes, until `finish`; a ClientError costs it that client."""

    def __init__(self, process: str, recorder: Recorder, make: Callable[[], C]) -> None:
        super().__init__(name=process, daemon=True)
        self.process, self.recorder = process, recorder
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._make = make
        self._client: C | None = None
        self._chance = random.Random(process)

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._work_once()
                except ClientError:
                    self._leave()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error
        finally:
            self._leave()

    def _work_once(self) -> None:
        if self._client is None:
            self._client = self._make()
            self.begin_anew()
        self.work(self._client)

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def begin_anew(self) -> None:
        """Called with each new client, before its first work."""

    @abstractmethod
    def work(self, client: C) -> None:
        """One operation, noted in the history. May raise ClientError."""

    def finish(self) -> None:
        """Stop after the operation that is under way. Raises what the worker failed with."""
        self.stopping.set()
        self.join(90)
        assert not self.is_alive(), f"{self.process} does not end"
        if self.failure is not None:
            raise self.failure


class TransactionWorker(Worker[TransactionalClient]):
    """Transactions of one to four records over the partitions; every fourth is aborted."""

    _number = 0

    def work(self, client: TransactionalClient) -> None:
        planned = [(self._chance.randrange(PARTITIONS), self._value()) for _ in range(self._chance.randint(1, 4))]
        began, transaction = self.recorder.now(), _Transaction(client, planned)
        try:
            transaction.run(commits=self._chance.randrange(4) > 0)
        finally:
            self.recorder.note(self.process, transaction.outcome, began, sends=transaction.sends())

    def _value(self) -> str:
        self._number += 1
        return f"{self.process}.{self._number}"


class _Transaction:
    """One transaction and what is known of it. Only the first thing that goes wrong decides how it is left."""

    def __init__(self, client: TransactionalClient, planned: list[tuple[int, str]]) -> None:
        self._client, self._planned = client, planned
        self._offsets: list[int | None] = [None] * len(planned)
        self.outcome: Outcome = "fail"

    def sends(self) -> list[Send]:
        return [
            Send(key_of(partition), value, offset)
            for (partition, value), offset in zip(self._planned, self._offsets, strict=True)
        ]

    def run(self, *, commits: bool) -> None:
        """Raises ClientError when the client is good for nothing more."""
        client = self._client
        client.begin()
        try:
            for partition, value in self._planned:
                client.send(partition, value)
            self._offsets = client.sent_offsets()
            if commits:
                self.outcome = "info"
                client.commit()
                self.outcome = "ok"
                return
        except ClientError:
            client.abort()
            return
        client.abort()


class PlainWorker(Worker[PlainClient]):
    """Sends one record at a time, outside of transactions; what is in doubt stays so."""

    _number = 0

    def work(self, client: PlainClient) -> None:
        self._number += 1
        partition, value = self._chance.randrange(PARTITIONS), f"{self.process}.{self._number}"
        outcome: Outcome = "info"
        began, offset = self.recorder.now(), None
        try:
            offset = client.send(partition, value)
            outcome = "ok"
        finally:
            sends = [Send(key_of(partition), value, offset)]
            self.recorder.note(self.process, outcome, began, sends=sends)


class ReadWorker(Worker[ReadingClient]):
    """Polls; a new client begins at the beginning again, and says so."""

    def begin_anew(self) -> None:
        keys = [key_of(partition) for partition in range(PARTITIONS)]
        self.recorder.note(self.process, "info", self.recorder.now(), assigned=keys)

    def work(self, client: ReadingClient) -> None:
        began = self.recorder.now()
        found = client.poll()
        if found:
            reads = [Read(key_of(partition), value, offset) for partition, offset, value in found]
            self.recorder.note(self.process, "ok", began, reads=reads)
