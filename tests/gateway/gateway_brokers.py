"""Brokers for tests of the gateway: one in a thread with fault injection, one in a separate process."""

import logging
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Self

import imported_broker
import trio
from off_the_loop import OffTheLoopStore

from odradek.gateway.config import load_config
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.process import Broker, open_broker
from odradek.gateway.testing.ports import free_ports
from odradek.storage_backends.faulty import FaultMix, FaultPlan, FaultyStore
from odradek.storage_backends.interface import Store, StoreError
from odradek.storage_backends.opener import open_store

START_TIMEOUT_S = 60


RETENTION_DELAY, RETENTION_NEVER = "log.initial.task.delay.ms", "100000000"
"""Many tests write old timestamps: retention would delete these records half a minute after the start."""


class _Plan(FaultPlan):
    next_failure: Exception | None = None
    no_writes: set[str]
    no_reads: set[str]

    def before_write(self, what: str) -> None:
        if self.next_failure is not None:
            failure, self.next_failure = self.next_failure, None
            raise failure
        _refuse(self.no_writes, what)
        super().before_write(what)

    def before_read(self, what: str) -> None:
        _refuse(self.no_reads, what)
        super().before_read(what)


def _refuse(logs: set[str], what: str) -> None:
    if any(log in what for log in logs):
        raise StoreError(f"{what}: I/O error (injected fault)")


class FaultyEnvironment(ProductionEnvironment):
    """The real environment except for its store: `faults` sets failures, `gate` blocks what `faults.slow` selects.

    Writes to logs whose names contain one of `no_writes` fail, and so do reads of `no_reads`.
    A store call that may wait for a disk fails when it comes from the Trio thread.
    """

    def __init__(self) -> None:
        super().__init__(threads=8)
        self.faults = FaultMix(max_delay_seconds=1)
        self.gate = threading.Event()
        self.waiting = threading.Semaphore(0)
        self._plan = _Plan(Random(1), self.faults, self._delay)
        self.no_writes = self._plan.no_writes = set[str]()
        self.no_reads = self._plan.no_reads = set[str]()

    def open_store(self, url: str) -> Store:
        self.store = OffTheLoopStore(FaultyStore(open_store(url), self._plan))
        return self.store

    def _delay(self, seconds: float) -> None:
        self.waiting.release()
        assert self.gate.wait(START_TIMEOUT_S), "the gate was not opened"

    def fail_next_write(self, failure: Exception | None = None) -> None:
        """Fails the next write, with an I/O error or `failure`; later ones succeed."""
        self._plan.next_failure = failure or StoreError("writing: I/O error (injected fault)")

    def hold(self) -> None:
        """From now on commits and reads wait until `release`."""
        self.gate.clear()
        self.faults.slow = 1.0

    def await_held(self) -> None:
        """Waits until a call is being held."""
        assert self.waiting.acquire(timeout=START_TIMEOUT_S), "nothing was held"

    def release(self) -> None:
        self.faults.slow = 0.0
        self.gate.set()


class ThreadBroker:
    """The production broker in a thread, with `env`; it keeps its port when it is started again."""

    def __init__(
        self, storage: str = "memory://", env: Callable[[], ProductionEnvironment] = FaultyEnvironment, **config
    ):
        self._config = {name.replace("_", "."): str(value) for name, value in config.items()}
        self._storage = storage
        self.make_env = env
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)

    def start(self) -> None:
        imported_broker.import_late()
        self._ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(START_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self.env = self.make_env()
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "odradek.storage": self._storage,
            "group.initial.rebalance.delay.ms": "0",
            "odradek.log.retry.backoff.ms": "0",  # tests of the back-off set their own
            RETENTION_DELAY: RETENTION_NEVER,
            **self._config,
        }
        async with open_broker(load_config(overrides=settings, environ={}), self.env) as broker:
            self.broker: Broker = broker
            self._token = trio.lowlevel.current_trio_token()
            self.address = ("127.0.0.1", broker.address[1])
            self.port = self.address[1]
            self._ready.set()
            await broker.serve()

    def in_trio(self, call: Callable[[], object]):
        """Runs `call` in the broker's thread."""
        return trio.from_thread.run_sync(call, trio_token=self._token)

    @property
    def token(self) -> trio.lowlevel.TrioToken:
        """The token of the broker's Trio thread."""
        return self._token

    def begin_stop(self) -> None:
        self._token.run_sync_soon(self.broker.stop)

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(START_TIMEOUT_S)
        assert not self._thread.is_alive(), "the broker does not stop"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if isinstance(self.env, FaultyEnvironment):
            self.env.release()
        self.begin_stop()
        self.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ProcessBroker:
    """`odradek serve` as a separate process, with its log in `log_path`; it keeps its port when it is started again.

    The port is outside the range that the system gives to clients: a client that connects to a stopped broker could
    otherwise be given this very port, and would be connected to itself.

    With `is_imported` it has imported all modules when it starts, for tests that allow no long turn of the event loop.
    """

    def __init__(self, directory: Path, *arguments: str, storage: str | None = None, is_imported: bool = False) -> None:
        self.directory = directory
        self.storage = storage
        self.log_path = directory.parent / f"{directory.name}.log"
        self.port = free_port()
        self._arguments = arguments
        self._program = ["-P", imported_broker.__file__] if is_imported else ["-m", "odradek"]
        self.process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def command(self) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        return [
            sys.executable,
            *self._program,
            "serve",
            "--listen",
            listen,
            *(["--storage", self.storage] if self.storage else ["--data", str(self.directory)]),
            "--set",
            f"{RETENTION_DELAY}={RETENTION_NEVER}",
            *self._arguments,
        ]

    def start(self) -> str:
        """Starts the process and waits for the ready line, which is returned."""
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, f"no ready line but {line!r}; its log:\n{self.log()}"
        self.port = int(found[1])
        return line

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.end(signal.SIGKILL)

    def terminate(self) -> int:
        """Sends SIGTERM and waits; returns the exit code."""
        return self.end(signal.SIGTERM)

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(START_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def log(self) -> str:
        return self.log_path.read_text()

    def limit(self, what: int, soft: int) -> None:
        """Sets a soft resource limit of the running process, which can be raised again."""
        assert self.process is not None
        _, hard = resource.prlimit(self.process.pid, what)
        resource.prlimit(self.process.pid, what, (soft, hard))

    def memory_bytes(self) -> int:
        """The private memory of the process."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


def free_port() -> int:
    return free_ports(1)[0]


def environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("ODRADEK_", "KAFKA_"))}


def logged(caplog, level: int, *parts: str) -> bool:
    """True if one record of exactly `level` contains all of `parts`."""
    return any(
        record.levelno == level and all(part in record.getMessage() for part in parts) for record in caplog.records
    )


def internal_errors(records: Sequence[logging.LogRecord]) -> list[str]:
    """Log records with a traceback, that is, bugs of the broker."""
    return [logging.Formatter().format(record) for record in records if record.exc_info]
