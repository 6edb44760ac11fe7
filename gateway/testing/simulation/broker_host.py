"""A simulated machine that runs the production broker, crash after crash."""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import trio

from gateway.broker import Broker, open_broker
from gateway.config import load_config
from gateway.testing.simulation.environment import SimEnvironment, World


class BrokerHost:
    """The machine `host`; its clients connect to `(host, port)`.

    `settings` are the broker's, under Kafka's names.
    """

    def __init__(self, world: World, host: str, port: int = 9092, settings: Mapping[str, str] | None = None) -> None:
        self.host = host
        self.port = port
        self.broker: Broker | None = None
        self._world = world
        self._settings = {"listeners": f"PLAINTEXT://{host}:{port}", **(settings or {})}
        self._env: SimEnvironment | None = None
        self._process: trio.CancelScope | None = None
        self._ready = trio.Event()
        self._ended = trio.Event()
        self._ended.set()

    @property
    def alive(self) -> bool:
        """Whether a process runs that has not crashed."""
        return self._env is not None and not self._env.dead

    def start(self, nursery: trio.Nursery) -> None:
        """Start the broker in the background. Its failure, unless by a crash, fails the nursery."""
        assert self._ended.is_set(), "it runs already"
        self._ended, self._ready = trio.Event(), trio.Event()
        self._env = self._world.environment(self.host)
        self._process = trio.CancelScope()
        nursery.start_soon(self._live, self._env, self._process)

    async def ready(self) -> None:
        """Wait until the broker that was started last serves, or has ended before it did."""
        await self._ready.wait()

    async def _live(self, env: SimEnvironment, process: trio.CancelScope) -> None:
        self._world.record(self.host, "starting")
        try:
            with process:
                await self._serve(env)
        except Exception as error:
            if not env.dead:
                raise
            self._world.record(self.host, f"crashed process ended with {type(error).__name__}")
        finally:
            env.dead = True
            self.broker = None
            self._ended.set()
            self._ready.set()

    async def _serve(self, env: SimEnvironment) -> None:
        config = load_config(overrides=self._settings, environ={})
        async with open_broker(config, env) as broker:
            self.broker = broker
            self._world.record(self.host, "ready")
            self._ready.set()
            await broker.serve()
        self._world.record(self.host, "stopped")

    async def crash(self, *, power_cut: bool) -> None:
        """Kill the broker at this very moment and wait until its remains are gone; no error when it does not run."""
        if self._env is None or self._process is None or not self.alive:
            return
        self._world.crash(self._env, power_cut=power_cut)
        self._process.cancel()
        await self._ended.wait()

    async def stop(self) -> None:
        """Stop the broker in order, and wait until it has ended."""
        await self.ready()
        if self.broker is not None:
            self.broker.stop()
        await self._ended.wait()

    @contextmanager
    def internal_errors(self) -> Generator[list[str]]:
        """Collect what the living broker logs as an error with a traceback: its own bugs, which clients survive."""
        handler = _TracebackHandler(self)
        logger = logging.getLogger("gateway")
        logger.addHandler(handler)
        try:
            yield handler.found
        finally:
            logger.removeHandler(handler)


class _TracebackHandler(logging.Handler):
    def __init__(self, host: BrokerHost) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self._host.alive:
            self.found.append(logging.Formatter().format(record))
