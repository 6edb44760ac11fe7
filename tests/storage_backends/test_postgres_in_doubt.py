"""PostgreSQL: a commit whose connection broke takes effect while the log is opened again."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, make_url, text
from sqlalchemy.pool import Pool

from odradek.partitions.model import LogWrite, PartitionKey
from odradek.storage_backends.interface import LogPolicy, PartitionStore, StoreError
from odradek.storage_backends.sql import database
from odradek.storage_backends.sql.store import SqlStore
from odradek.storage_backends.testing.access import base_offsets, fill
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
WAIT_S = 30


class Standby:
    """A synchronous standby that is away: commits are written, but neither visible nor answered until `back`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _administer(self, *statements: str) -> Any:
        engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("SET synchronous_commit = off"))
            results = [connection.execute(text(each)) for each in statements]
            found = results[-1].scalar_one()
        engine.dispose()
        return found

    def away(self) -> None:
        self._administer("ALTER SYSTEM SET synchronous_standby_names = 'absent'", "SELECT pg_reload_conf()")
        self._until("SELECT current_setting('synchronous_standby_names') = 'absent'", 1)

    def back(self) -> None:
        self._administer("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")

    def await_waiting(self) -> None:
        self._until(WAITING, 1)

    def _until(self, query: str, value: int) -> None:
        for _ in range(600):
            if self._administer(query) >= value:
                return
            time.sleep(0.05)
        raise AssertionError(query)


@pytest.fixture
def standby(postgres: str) -> Iterator[Standby]:
    standby = Standby(postgres)
    try:
        yield standby
    finally:
        standby.back()


class InThread(threading.Thread):
    """Runs a call; `outcome` is its result or its exception, once it is done."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.outcome: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._call()
        except BaseException as error:  # noqa: BLE001 - for the test
            self.outcome = error

    def result(self) -> Any:
        self.join(WAIT_S)
        assert not self.is_alive()
        return self.outcome


def broken_while_committing(standby: Standby, call: Callable[[], Any]) -> Any:
    """The outcome of `call`, whose connection breaks while the server commits."""
    taken: list[Any] = []

    def checked_out(connection: Any, *_: Any) -> None:
        taken.append(connection)

    event.listen(Pool, "checkout", checked_out)
    try:
        thread = InThread(call)
        standby.await_waiting()
        committing = [each for each in taken if hasattr(each, "pgconn") and each.pgconn.transaction_status == 1]
        with socket.socket(fileno=os.dup(committing[-1].pgconn.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)  # as a firewall, a proxy or a time-out does
        return thread.result()
    finally:
        event.remove(Pool, "checkout", checked_out)


def opened(store: SqlStore, key: PartitionKey) -> PartitionStore:
    """Open a log as a broker does: again after an error."""
    for _ in range(600):
        with suppress(StoreError):
            return store.open(key, LogPolicy())
        time.sleep(0.05)
    raise AssertionError("it cannot be opened")


def test_no_two_batches_are_written_at_the_offset_of_a_commit_in_doubt(postgres: str, standby: Standby) -> None:
    with closing(SqlStore(postgres)) as store:
        log = store.open(KEY, LogPolicy())
        fill(log, 3)
        standby.away()
        write = LogWrite([make_batch(3, payload=b"first")])
        assert isinstance(broken_while_committing(standby, lambda: log.commit([write], sync=True)), StoreError)
        assert log.failed
        log.close()
        with pytest.raises(StoreError, match="opening orders-0"):
            store.open(KEY, LogPolicy())
        standby.back()
        log = opened(store, KEY)
        end_offset = log.load().log_end_offset
        assert end_offset == 4
        log.commit([LogWrite([make_batch(end_offset, payload=b"second")])], sync=True)
        assert base_offsets(log) == [0, 1, 2, 3, 4]


def test_a_log_whose_creation_is_in_doubt_is_made_once(postgres: str, standby: Standby) -> None:
    with closing(SqlStore(postgres)) as store:
        store.open(KEY, LogPolicy()).close()
        standby.away()
        assert isinstance(broken_while_committing(standby, lambda: store.open(SIBLING, LogPolicy())), StoreError)
        with pytest.raises(StoreError):
            store.open(SIBLING, LogPolicy())
        standby.back()
        log = opened(store, SIBLING)
        fill(log, 1)
        log.close()
        assert base_offsets(store.open(SIBLING, LogPolicy())) == [0]


class Proxy:
    """Forwards connections to a server; `cut` closes the clients' sides, of which the server does not learn."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._clients: list[socket.socket] = []
        self._servers: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._clients.append(client)
                self._servers.append(server)
                for pair in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._forward, args=pair, daemon=True))
                    self._threads[-1].start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    def cut(self) -> None:
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._clients, *self._servers):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # ends the thread that waits for it
        for thread in self._threads:
            thread.join(WAIT_S)
        for each in (self._listener, *self._clients, *self._servers):
            each.close()


def test_a_transaction_that_only_the_server_has_stops_no_other_log(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends it after a while; until then the log that it may belong to cannot be opened."""
    monkeypatch.setattr(database, "IDLE_MS", 2000)
    url = make_url(postgres)
    assert url.port is not None
    with closing(Proxy(url.port)) as proxy, closing(SqlStore(url.set(port=proxy.port).render_as_string())) as store:
        log, other = store.open(KEY, LogPolicy()), store.open(SIBLING, LogPolicy())

        def is_cut(connection: Connection) -> None:
            connection.execute(text("SELECT 1"))
            proxy.cut()
            connection.execute(text("SELECT 1"))

        with pytest.raises(StoreError):
            store.group.run(is_cut)
        log.close()
        with pytest.raises(StoreError, match="opening orders-0"):
            store.open(KEY, LogPolicy())
        fill(other, 1)
        fill(opened(store, KEY), 1)
