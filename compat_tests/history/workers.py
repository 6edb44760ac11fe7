"""Clients that make a history: each a thread that works until it is told to stop, whatever happens to the broker.

A producer that is in doubt says so (`info`): only a transaction for which no commit was ever asked is sure to have
failed. Values are unique: the process's name and a number.
"""

from __future__ import annotations

import random
import threading
from typing import Protocol

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


def key_of(partition: int) -> Key:
    """A partition's name in the history."""
    return f"{TOPIC}-{partition}"


class Worker(threading.Thread):
    """Repeats `work` until `stop`; a ClientError that `work` lets through costs it its client only."""

    def __init__(self, process: str, recorder: Recorder) -> None:
        super().__init__(name=process, daemon=True)
        self.process, self.recorder = process, recorder
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self.work()
                except ClientError:
                    self.renew()
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failure = error
        finally:
            self.leave()

    def work(self) -> None:
        raise NotImplementedError

    def renew(self) -> None:
        """Make the client anew."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close the client."""
        raise NotImplementedError

    def finish(self) -> None:
        """Stop after the operation that is under way. Raises what the worker failed with."""
        self.stopping.set()
        self.join(90)
        assert not self.is_alive(), f"{self.process} does not end"
        if self.failure is not None:
            raise self.failure


class TransactionWorker(Worker):
    """Transactions of one to four records over the partitions; every fourth is aborted."""

    def __init__(self, process: str, recorder: Recorder, make) -> None:
        super().__init__(process, recorder)
        self._make = make
        self._client: TransactionalClient | None = None
        self._chance = random.Random(process)
        self._number = 0

    def renew(self) -> None:
        self.leave()

    def leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def work(self) -> None:
        if self._client is None:
            self._client = self._make()
        assert self._client is not None
        planned = [(self._chance.randrange(PARTITIONS), self._value()) for _ in range(self._chance.randint(1, 4))]
        began, transaction = self.recorder.now(), _Transaction(self._client, planned)
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


class PlainWorker(Worker):
    """Sends one record at a time, outside of transactions; what is in doubt stays so."""

    def __init__(self, process: str, recorder: Recorder, make) -> None:
        super().__init__(process, recorder)
        self._make = make
        self._client: PlainClient | None = None
        self._chance = random.Random(process)
        self._number = 0

    def renew(self) -> None:
        self.leave()

    def leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def work(self) -> None:
        if self._client is None:
            self._client = self._make()
        assert self._client is not None
        self._number += 1
        partition, value = self._chance.randrange(PARTITIONS), f"{self.process}.{self._number}"
        began, outcome, offset = self.recorder.now(), "info", None
        try:
            offset = self._client.send(partition, value)
            outcome = "ok"
        finally:
            sends = [Send(key_of(partition), value, offset)]
            self.recorder.note(self.process, "ok" if outcome == "ok" else "info", began, sends=sends)


class ReadWorker(Worker):
    """Polls; a new client begins at the beginning again, and says so."""

    def __init__(self, process: str, recorder: Recorder, make) -> None:
        super().__init__(process, recorder)
        self._make = make
        self._client: ReadingClient | None = None

    def renew(self) -> None:
        self.leave()

    def leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def work(self) -> None:
        if self._client is None:
            self._client = self._make()
            keys = [key_of(partition) for partition in range(PARTITIONS)]
            self.recorder.note(self.process, "info", self.recorder.now(), assigned=keys)
        assert self._client is not None
        began = self.recorder.now()
        found = self._client.poll()
        if found:
            reads = [Read(key_of(partition), value, offset) for partition, offset, value in found]
            self.recorder.note(self.process, "ok", began, reads=reads)
