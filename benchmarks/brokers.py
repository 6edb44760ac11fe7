"""The two sides: `odradek serve` and a real Kafka on the local JVM, each a subprocess with its data in a directory.

A side's broker starts at its first use and runs until the end. Both have their default settings except for `BOTH`;
Kafka has the heap and the garbage collector of its own start script.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cases import FLUSH_MESSAGES, KAFKA, ODRADEK, Mode, NotMeasuredError
from benchmarks.proc import cpu_seconds
from compat_tests.brokers import ALONE
from compat_tests.processes import Daemon, free_port
from compat_tests.real_kafka import UnavailableError, jars_folder, java_command, kafka_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from compat_tests.clusters import Nodes

START_TIMEOUT_S = 60
KAFKA_JVM = ["-Xmx1g", "-Xms1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""The environment of measured processes: Python writes bytecode files, as an installation has them."""
BOTH = {"group.initial.rebalance.delay.ms": "0"}
"""Without the three seconds that an empty group waits for more members at its first join."""
EARLIER = "earlier"
"""The name of another version of Odradek that is measured instead of Kafka."""
_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_numbers = iter(range(1_000_000))


class RunningBroker:
    """A broker that serves. `start_s` is the time from the start of its process to its first Metadata answer."""

    def __init__(self, name: str, bootstrap: str, command: list[str], log: Path) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.home = log.parent
        self._command, self._log = command, log
        self._admin: AdminClient | None = None
        self._start()

    def _start(self) -> None:
        started = time.perf_counter()
        self._daemon = Daemon(self._command, log=self._log, env=WITH_BYTECODE)
        try:
            self._await_metadata(started + START_TIMEOUT_S)
        except BaseException:
            self._daemon.kill()
            raise
        self.start_s = time.perf_counter() - started

    def restart(self) -> None:
        """Stop it with SIGTERM, and start it again on the same data. Raises NotMeasuredError."""
        self._daemon.terminate()
        self._start()

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self._daemon.process.pid

    def _await_metadata(self, deadline: float) -> None:
        host, port = self.bootstrap.split(":")
        while not _names_a_broker(host, int(port)):
            if self._daemon.process.poll() is not None:
                raise NotMeasuredError(f"{self.name} ended at once: {self._daemon.tail(3)}")
            if time.perf_counter() > deadline:
                raise NotMeasuredError(f"{self.name} gave no Metadata answer within {START_TIMEOUT_S} s")
            threading.Event().wait(0.005)

    def cpu_seconds(self) -> float:
        """CPU seconds that the broker has used so far. Raises NotMeasuredError if it has ended."""
        self.check_alive()
        return cpu_seconds(self.pid)

    def check_alive(self) -> None:
        """Raise NotMeasuredError, with the end of its log, if the broker has ended."""
        if self._daemon.process.poll() is not None:
            raise NotMeasuredError(f"{self.name} died: {self._daemon.tail(3)}")

    @contextmanager
    def topic(self, partitions: int, mode: Mode) -> Iterator[str]:
        """A new topic for the block, deleted at its end. Raises NotMeasuredError."""
        self.check_alive()
        name = f"bench-{os.getpid()}-{next(_numbers)}"
        self._create(name, partitions, mode)
        try:
            yield name
        finally:
            self._done(self._administrator().delete_topics([name], request_timeout=10), "delete")

    def _create(self, name: str, partitions: int, mode: Mode) -> None:
        from confluent_kafka.admin import NewTopic

        config = {"flush.messages": FLUSH_MESSAGES[mode]}
        if self.name == KAFKA:
            config["file.delete.delay.ms"] = "1000"
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        self._done(self._administrator().create_topics([wanted], request_timeout=20), "create")

    def _administrator(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            quiet = logging.getLogger("benchmarks.admin")
            quiet.addHandler(logging.NullHandler())
            quiet.propagate = False
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=quiet)
        return self._admin

    def _done(self, futures: dict[str, Any], what: str) -> None:
        from confluent_kafka import KafkaException

        for future in futures.values():
            try:
                future.result(timeout=25)
            except (KafkaException, TimeoutError) as error:
                raise NotMeasuredError(f"{self.name}: cannot {what} a topic: {error}") from error

    def stop(self) -> None:
        """Kill it; its data are removed with the directory of the run."""
        self._admin = None
        self._daemon.kill()


class Side:
    """One side of the comparison. `start(home, settings)` starts a broker with its data in `home`."""

    def __init__(self, name: str, start: Callable[[Path, Mapping[str, str]], RunningBroker], root: Path) -> None:
        self.name = name
        self._start = start
        self._root = root
        self._broker: RunningBroker | None = None
        self._failure: str | None = None
        self._cluster: Nodes | None = None
        self._cluster_failure: str | None = None

    @property
    def broker(self) -> RunningBroker:
        """The broker until `stop`, started at first use. If it cannot start, each call raises NotMeasuredError."""
        if self._failure is not None:
            raise NotMeasuredError(self._failure)
        if self._broker is None:
            try:
                self._broker = self.fresh()
            except NotMeasuredError as error:
                self._failure = str(error)
                raise
        return self._broker

    def fresh(self, settings: Mapping[str, str] | None = None) -> RunningBroker:
        """Another broker with an empty directory and these settings; the caller stops it. Raises NotMeasuredError."""
        return self._start(self.home(), settings or {})

    def home(self) -> Path:
        """A new, empty directory."""
        home = self._root / f"{self.name.lower()}-{next(_numbers)}"
        home.mkdir()
        return home

    def cluster(self, start: Callable[[str], Nodes]) -> Nodes:
        """The cluster until `stop`, started by `start(name)`. Raises NotMeasuredError as `broker` does."""
        if self._cluster_failure is not None:
            raise NotMeasuredError(self._cluster_failure)
        if self._cluster is None:
            try:
                self._cluster = start(self.name)
            except NotMeasuredError as error:
                self._cluster_failure = str(error)
                raise
        return self._cluster

    def stop(self) -> None:
        """Stop the broker and the cluster; the next use of one starts another."""
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.stop()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()


def both_sides(root: Path, against: str | None = None) -> dict[str, Side]:
    """Odradek and Kafka, not started yet, with their data below `root`.

    `against` is the `odradek` command of another version, to be measured instead of Kafka.
    """
    start_theirs = start_kafka if against is None else partial(start_command, [against], EARLIER)
    return {ODRADEK: Side(ODRADEK, start_odradek, root), KAFKA: Side(KAFKA, start_theirs, root)}


def start_odradek(home: Path, settings: Mapping[str, str]) -> RunningBroker:
    """Start `odradek serve` with its defaults, over LMDB. Raises NotMeasuredError."""
    return start_command([sys.executable, "-m", "odradek"], ODRADEK, home, settings)


def start_command(command: list[str], name: str, home: Path, settings: Mapping[str, str]) -> RunningBroker:
    """Start `serve` of an `odradek` command, over LMDB unless `odradek.storage` is set. Raises NotMeasuredError.

    `{home}` in a setting is replaced by the broker's directory.
    """
    bootstrap = f"127.0.0.1:{free_port()}"
    where = ["--listen", bootstrap]
    if "odradek.storage" not in settings:
        where += ["--data", str(home / "data")]
    for setting, value in {**BOTH, **settings}.items():
        where += ["--set", f"{setting}={value.replace('{home}', str(home))}"]
    return RunningBroker(name, bootstrap, [*command, "serve", *where], home / "serve.log")


def start_kafka(home: Path, more: Mapping[str, str]) -> RunningBroker:
    """Start Kafka, with KRaft and one node; `start_s` does not include the formatting. Raises NotMeasuredError."""
    libs = jars_folder() / "kafka"
    try:
        java = java_command()
    except UnavailableError as error:
        raise NotMeasuredError(str(error)) from error
    if not libs.is_dir():
        raise NotMeasuredError("no Kafka jars: run scripts/fetch_jars.sh kafka")
    port = free_port()
    settings = kafka_settings(port, free_port(), host="127.0.0.1", settings={**ALONE, **BOTH, **more})
    settings["log.dirs"] = str(home / "data")
    config = home / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    base = [java, "-cp", f"{libs}/*"]
    tool = [*base, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)]
    formatted = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    if formatted.returncode != 0:
        raise NotMeasuredError(f"kafka-storage format: {formatted.stderr.strip()[-200:]}")
    command = [java, *KAFKA_JVM, "-cp", f"{libs}/*", "kafka.Kafka", str(config)]
    return RunningBroker(KAFKA, f"127.0.0.1:{port}", command, home / "kafka.log")


def _names_a_broker(host: str, port: int) -> bool:
    """True if a Metadata request (version 1, no topics) is answered with at least one broker."""
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 12 and struct.unpack_from(">i", answer, 8)[0] > 0
