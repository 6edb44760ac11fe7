"""A simulated machine that runs the production broker and can crash and restart any number of times."""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

import trio

from odradek.gateway.config import load_config
from odradek.gateway.errors import StartError, first_error
from odradek.gateway.process import Broker, open_broker
from odradek.gateway.testing.simulation.environment import SimEnvironment, World
from odradek.gateway.testing.simulation.scheduling import Pause
from odradek.storage_backends.interface import StoreError

START_ERRORS: Final = (StoreError, StartError)
"""What `open_broker` raises when the disk fails while it starts."""
RESTART_S: Final = 0.5
"""The pause before a supervisor restarts a broker that could not start."""


class BrokerHost:
    """The machine `host`; its clients connect to `(host, port)`.

    `settings` are the broker's configuration, under Kafka's names; a change applies from its next start on. If
    `supervised`, the broker is also restarted when it ends because its disk fails, as a broker of a cluster is.
    `starts` is the number of processes up to now.
    """

    def __init__(
        self,
        world: World,
        host: str,
        port: int = 9092,
        settings: Mapping[str, str] | None = None,
        *,
        supervised: bool = False,
    ) -> None:
        self.host = host
        self.port = port
        self.broker: Broker | None = None
        self.starts = 0
        self._skew_ms = 0
        self._world = world
        self._supervised = supervised
        self.settings = {"listeners": f"PLAINTEXT://{host}:{port}", **(settings or {})}
        self._env: SimEnvironment | None = None
        self._process: trio.CancelScope | None = None
        self.pause = Pause()
        self._ready = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    @property
    def alive(self) -> bool:
        """True while a process runs that has not crashed."""
        return self._env is not None and not self._env.dead

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return not self._ended.is_set()

    @property
    def skew_ms(self) -> int:
        """How far the host's wall clock is ahead."""
        return self._skew_ms

    @skew_ms.setter
    def skew_ms(self, value: int) -> None:
        self._skew_ms = value
        self._world.largest_skew_ms = max(self._world.largest_skew_ms, value)
        self._world.record(self.host, f"clock is {value} ms off")
        if self._env is not None:
            self._env.skew_ms = value

    def start(self, nursery: trio.Nursery) -> None:
        """Start the broker in the background; retry while a bad disk keeps it from starting.

        Any other failure that is not caused by a crash fails the nursery.
        """
        assert not self.running
        self._ended, self._ready = trio.Event(), trio.Event()
        self._process = trio.CancelScope()
        nursery.start_soon(self._live, self._process)

    async def ready(self) -> None:
        """Wait until the broker has served once since the last `start`, or has ended without serving."""
        await self._ready.wait()

    async def _live(self, process: trio.CancelScope) -> None:
        self.pause.enter()
        try:
            with process:
                while await self._is_kept_from_starting():  # noqa: ASYNC110 - waits for no event, as supervisors do
                    await trio.sleep(RESTART_S)
        finally:
            self._ended.set()
            self._ready.set()

    async def _is_kept_from_starting(self) -> bool:
        """Run the broker to its end; return True if it is to be restarted because of a bad disk."""
        env = self._env = self._world.environment(self.host)
        self.starts += 1
        env.skew_ms = self._skew_ms
        self._world.record(self.host, "starting")
        try:
            await self._serve(env)
        except Exception as error:
            cause = first_error(BaseExceptionGroup("", [error]))
            if env.dead:
                self._world.record(self.host, f"crashed process ended with {type(cause).__name__}")
                return False
            if self._supervised and _is_of_disk(cause):
                self._world.record(self.host, f"ended: {type(cause).__name__}")
                return True
            bad = self._world.disk(self.host).is_bad
            if self._ready.is_set() or not bad or not isinstance(cause, START_ERRORS):
                raise
            self._world.record(self.host, f"did not start: {type(cause).__name__}")
            return True
        finally:
            env.dead = True
            self.broker = None
        return False

    async def _serve(self, env: SimEnvironment) -> None:
        config = load_config(overrides=self.settings, environ={})
        async with open_broker(config, env) as broker:
            self.broker = broker
            self._world.record(self.host, "ready")
            self._ready.set()
            await broker.serve()
        self._world.record(self.host, "stopped")

    async def crash(self, *, power_cut: bool) -> None:
        """Kill the broker at once and wait until its tasks have ended; does nothing when it does not run."""
        if self._process is None or not self.running:
            return
        self.pause.end()
        if self._env is not None and self.alive:
            self._world.crash(self._env, power_cut=power_cut)
        self._process.cancel()
        await self._ended.wait()

    async def stop(self) -> None:
        """Shut the broker down cleanly, and wait until it has ended."""
        await self.ready()
        if self.broker is not None:
            self.broker.stop()
        await self._ended.wait()

    @contextmanager
    def internal_errors(self) -> Generator[list[str]]:
        """Collect the errors with a traceback that the running broker logs: bugs that clients do not notice."""
        handler = _TracebackHandler(self)
        logger = logging.getLogger("odradek")
        logger.addHandler(handler)
        try:
            yield handler.found
        finally:
            logger.removeHandler(handler)


def _is_of_disk(error: BaseException | None) -> bool:
    """True if an error of the store caused it. The disk may have recovered by the time that the broker has ended."""
    while error is not None and not isinstance(error, StoreError):
        error = error.__cause__
    return error is not None


class _TracebackHandler(logging.Handler):
    def __init__(self, host: BrokerHost) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self._host.alive and self._host.pause.is_current:
            self.found.append(logging.Formatter().format(record))
