"""The interface of every broker under comparison, and Odradek as one of them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Protocol

from compat_tests.processes import Daemon, free_port, remove_tree_guard, wait_for_broker
from tests.postgres import Postgres, skip_without_postgres

# Settings with which internal topics can be created on a single node.
ALONE: dict[str, str] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

# Set on both sides, so that differences come from the broker and not from its settings.
SETTINGS: dict[str, str] = {
    **ALONE,
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.retention.ms": "-1",  # the records of these scripts have old timestamps
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


class Broker(Protocol):
    """One side of the comparison."""

    name: str
    provider: str
    bootstrap: str
    replicas: int
    """The replication factor of topics that a case creates."""

    def crash(self) -> None:
        """``kill -9``."""

    def restart(self) -> None:
        """Starts again on the same data and port after a crash; returns when it serves."""

    def stop(self) -> None:
        """Ends it and deletes its data."""


def java_properties(settings: dict[str, str]) -> str:
    """Settings in the format of a ``server.properties`` file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


class Odradek:
    """``odradek serve`` as a user starts it: a subprocess over LMDB in a temporary directory.

    ``storage``, or ODRADEK_COMPAT_STORAGE, sets another store: `sqlite`, `postgres` (a separate server), or the URL of
    an empty database.
    """

    name = "odradek"
    replicas = 1

    def __init__(self, storage: str | None = None) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="odradek-compat-"))
        self._remove = remove_tree_guard(self._home)
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._postgres: Postgres | None = None
        chosen = storage or os.environ.get("ODRADEK_COMPAT_STORAGE", "lmdb")
        self._storage = self._storage_options(chosen)
        kind = chosen.partition(":")[0]  # a URL may contain a password
        self.provider = f"odradek serve (subprocess, {kind})"
        (self._home / "server.properties").write_text(java_properties(SETTINGS))
        try:
            self._daemon = self._start()
        except RuntimeError:
            self._forget()
            raise

    def _storage_options(self, chosen: str) -> list[str]:
        if chosen == "postgres":
            self._postgres = Postgres(skip_without_postgres())
            self._postgres.start()
            chosen = self._postgres.create_database()
        if chosen == "lmdb":
            return ["--data", str(self._home / "data")]
        return ["--storage", f"sqlite://{self._home}/store.db" if chosen == "sqlite" else chosen]

    def _command(self) -> list[str]:
        beside = Path(sys.executable).parent / "odradek"
        odradek = str(beside) if beside.exists() else (shutil.which("odradek") or "odradek")
        where = ["--listen", self.bootstrap, *self._storage]
        return [odradek, "serve", *where, "--config", str(self._home / "server.properties")]

    def _start(self) -> Daemon:
        daemon = Daemon(self._command(), log=self._home / "serve.log")
        try:
            wait_for_broker(self.bootstrap, timeout_s=30, alive=lambda: daemon.process.poll() is None)
            self._await_ready_line(daemon)
        except (RuntimeError, TimeoutError) as error:
            daemon.kill()
            raise RuntimeError(f"odradek serve did not start: {error}\n{daemon.tail()}") from error
        return daemon

    def _await_ready_line(self, daemon: Daemon) -> None:
        deadline = time.monotonic() + 5
        while " ready in " not in daemon.log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                raise TimeoutError("it serves but never printed its ready line")
            threading.Event().wait(0.05)

    def crash(self) -> None:
        self._daemon.kill()

    def restart(self) -> None:
        self._daemon = self._start()

    def log_tail(self) -> str:
        """The end of the broker's log, for failure reports."""
        return self._daemon.tail(30)

    def stop(self) -> None:
        self._daemon.terminate()
        self._forget()

    def _forget(self) -> None:
        if self._postgres is not None:
            self._postgres.remove()
        self._remove.release()
