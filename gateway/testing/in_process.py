"""The production broker in a thread of the calling process, for tests."""

import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from odradek.gateway.data_urls import url_of_directory
from odradek.gateway.quick_import import collector_paused
from odradek.gateway.testing.kit.facade import CALL_TIMEOUT_S, AsyncTestKafka, TestKafka, awaited
from odradek.gateway.testing.kit.seam import Seam
from odradek.gateway.testing.kit.threads import in_thread

if TYPE_CHECKING:
    from odradek.gateway.assembly import Services
    from odradek.gateway.config import BrokerConfig, SettingValue
    from odradek.gateway.env.environment import Environment
    from odradek.gateway.process import Running
    from odradek.gateway.testing.kit.access import Access, LocalAccess
    from odradek.gateway.testing.kit.faults import Faults
    from odradek.gateway.testing.kit.snapshots import Snapshot, StoreKeeper
    from odradek.gateway.testing.kit.topics import Topics

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
MEMORY = "memory://"

T = TypeVar("T")


class TestBroker(TestKafka):
    """A broker that runs while the `with` or `async with` block does.

    `storage` is `memory://`, a directory, or a storage URL; `config` contains further settings under Kafka's names, as
    text, numbers, booleans or lists. `topics` are created at each start unless they are there: the number of partitions
    by name, or a dictionary of `partitions` and `configs`. With `like`, clients are offered only what brokers of that
    Kafka release, such as "2.8", offer them. The broker may be stopped and started again inside the
    block: it keeps its port, and the data in a directory.
    """

    def __init__(
        self,
        storage: str | Path = "memory://",
        config: "Mapping[str, SettingValue] | None" = None,
        *,
        topics: "Topics | None" = None,
        like: str | None = None,
    ) -> None:
        self._storage = str(storage)
        self._topics = dict(topics or {})
        self._config = {**({} if like is None else {"odradek.emulated.release": like}), **(config or {})}
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._running: Running | None = None
        with collector_paused():
            from odradek.gateway.testing.kit.clock import Clock
            from odradek.gateway.testing.kit.disk import Disk

        self.clock = Clock()
        self.disk = Disk()
        self._keeper = self._new_keeper()
        self._around: list[Callable[[Environment], Environment]] = [self.disk.around, self.clock.around]
        if self._keeper is not None:
            self._around.insert(0, self._keeper.around)
        self._as_started: Snapshot | None = None
        self._seam = Seam()
        self._access: LocalAccess | None = None
        self.host = "127.0.0.1"
        self.port = 0

    def _new_keeper(self) -> "StoreKeeper | None":
        """What keeps the store for snapshots; None for stores that are not in memory."""
        if self._storage != MEMORY:
            return None
        with collector_paused():
            from odradek.gateway.testing.kit.snapshots import StoreKeeper
        return StoreKeeper()

    @property
    def bootstrap(self) -> str:
        """The address for the clients' `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @cached_property
    def aio(self) -> "AsyncTestBroker":
        """The methods that wait, as coroutine functions, which do not block the event loop."""
        return AsyncTestBroker(self)

    @property
    def has_faults(self) -> bool:
        """True if `faults` has been used."""
        return "faults" in vars(self)

    @cached_property
    def faults(self) -> "Faults":
        """The faults that a test scripts: requests that fail, wait, get no reply, or lose their connection."""
        from odradek.gateway.testing.kit.faults import Faults
        from odradek.gateway.testing.kit.interception import Interception

        faults = Faults()
        self._seam.interception = Interception(faults)
        return faults

    def start(self) -> None:
        """Start the broker, and return when it serves. Raises the error that prevents the start, or TimeoutError."""
        assert self._thread is None, "the broker runs already"
        self._ready.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="odradek-broker", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise TimeoutError("the broker did not start")
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        if self._topics:
            self._create_missing()
        if self._keeper is not None and self._as_started is None:
            self._as_started = self._keeper.snapshot(0)

    def _create_missing(self) -> None:
        from odradek.gateway.testing.kit.topics import create_missing, new_topics

        try:
            wanted = new_topics(self._topics)
            self.with_access(lambda access: create_missing(access, wanted), CALL_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Answer accepted requests, and stop; does nothing if the broker does not run.

        Raises the error that has ended the broker, or TimeoutError.
        """
        if self._thread is None:
            return
        if self.has_faults:
            self.faults.let_go()
        if self._running is not None:
            self._running.stop()
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError("the broker did not stop")
        self._thread = self._running = None
        if self._failure is not None:
            raise self._failure

    def create_topic(self, name: str, partitions: int = 1, configs: "Mapping[str, SettingValue] | None" = None) -> None:
        """Create a topic. Raises RuntimeError with the broker's reason, ConfigError for a value of a wrong type."""
        self.create_topics({name: {"partitions": partitions, "configs": configs or {}}})

    def with_access(self, function: "Callable[[Access], Awaitable[T]]", timeout_s: float) -> T:
        """See `TestKafka.with_access`."""
        return self.call(lambda services: function(self._access_to(services)), timeout_s)

    def _access_to(self, services: "Services") -> "LocalAccess":
        """The access to this run of the broker, which decodes quickly what it has decoded before."""
        if self._access is None or self._access.services is not services:
            from odradek.gateway.testing.kit.access import LocalAccess

            self._access = LocalAccess(services)
        return self._access

    def call(self, function: "Callable[[Services], Awaitable[T]]", timeout_s: float | None = CALL_TIMEOUT_S) -> T:
        """Run an asynchronous function on the broker's Trio thread with its services, and return its result.

        For the kit itself, and for tests of what it does not offer; what `Services` contains is not a stable interface.
        Raises what the function raises; TimeoutError, after the function has been cancelled, if there is no result
        within `timeout_s` (None: wait for ever); RuntimeError if the broker does not run, or ends meanwhile.
        """
        from odradek.gateway.env.outside_calls import RunEndedError

        running = self._started()
        try:
            return running.call(function, timeout_s)
        except RunEndedError as error:
            raise RuntimeError(f"the broker does not run: {error}") from (self._failure or error)

    @property
    def now_ms(self) -> int:
        """The broker's wall clock, milliseconds since the epoch."""
        return self.clock.now_ms

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Let time pass for the broker; returns when what became due has been done. See `Clock.advance`."""
        self.clock.advance(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)

    def around(self, wrap: "Callable[[Environment], Environment]") -> None:
        """Replace the broker's environment (clocks, chance, network, store) by one around it, from the next start on.

        The function that was given first is nearest to the real environment.
        """
        self._around.append(wrap)

    def _wrapped(self, environment: "Environment") -> "Environment":
        for wrap in self._around:
            environment = wrap(environment)
        return environment

    def rebalance(self, group: str) -> list[str]:
        """Begin a rebalance of a consumer group; see `kit.events.rebalance`, also for the errors of these methods."""
        from odradek.gateway.testing.kit.events import rebalance

        return self.call(lambda services: rebalance(services, group))

    def expire_session(
        self, group: str, *, member: str | None = None, client_id: str | None = None, instance_id: str | None = None
    ) -> list[str]:
        """Remove members of a group as if their sessions had timed out; without ids, all. Returns their member ids."""
        from odradek.gateway.testing.kit.events import expire_session

        return self.call(lambda services: expire_session(services, group, member, client_id, instance_id))

    def move_leader(self, topic: str, partition: int = 0) -> int:
        """Let the leader of a partition change, as far as clients notice it; returns the new leader epoch.

        The next Produce and the next Fetch of the partition get NOT_LEADER_OR_FOLLOWER, and requests with the epoch
        before FENCED_LEADER_EPOCH. The leader is then this broker again, since there is no other.
        """
        from odradek.gateway.testing.kit.events import raise_leader_epoch

        for api in ("Produce", "Fetch"):
            self.faults.next(api, error="NOT_LEADER_OR_FOLLOWER", topic=topic, partition=partition)
        return self.call(lambda services: raise_leader_epoch(services, topic, partition))

    def disconnect(self, client_id: str | None = None) -> int:
        """Close the connections of a client, or all; returns their number. Requests under way get no reply."""
        clients = self._seam.clients
        return self._started().disconnect(lambda peer: client_id is None or clients.get(peer) == client_id)

    def snapshot(self) -> "Snapshot":
        """The broker's state at this moment, for `reset`: topics, records, groups, transactions, configs, and its time.

        It takes less than a millisecond with a hundred topics, and shares the records with the broker. Take it while no
        consumer is a member of a group: its membership would be part of it. Raises RuntimeError if the broker does not
        run, or keeps its data in a directory or a database.
        """
        self._started()
        return self._snapshots().snapshot(self.clock.ahead_ms)

    def reset(self, snapshot: "Snapshot | None" = None) -> None:
        """Go back to a snapshot, by default to the state after the first start: only the given `topics`, no records.

        The broker restarts on its port, which takes some milliseconds. Clients' connections are closed, and what they
        remember of the state before is void: close them first, or let them reconnect as after any restart. Faults that
        are armed are removed, the disk is quick and has space, and the clock is what it was. A broker that was stopped
        is started. Raises RuntimeError as `snapshot` does.
        """
        keeper, to = self._snapshots(), snapshot or self._as_started
        if to is None:
            self._started()
            return
        if self.has_faults:
            self.faults.clear()
        self.disk.restore()
        self.stop()
        keeper.next_medium = to.medium.copy()
        self.clock.ahead_ms = to.ahead_ms
        vars(self).pop("_placing", None)
        self.start()

    def _snapshots(self) -> "StoreKeeper":
        if self._keeper is None:
            raise RuntimeError(
                f"there are no snapshots of {self._storage}: only of memory://. Use memory, or for each test a new "
                "directory"
            )
        return self._keeper

    def _started(self) -> "Running":
        if self._running is None:
            raise RuntimeError("the broker does not run: use it inside its `with` block, or after `start()`")
        return self._running

    def restart(self) -> None:
        """Stop, and start again on the same port."""
        self.stop()
        self.start()

    def _run(self) -> None:
        try:
            with collector_paused():
                from odradek.gateway.process import run_broker

            run_broker(self._settings(), self._on_ready, signals=False, around=self._wrapped, clock=self.clock)
        except BaseException as error:
            self._failure = error
            if self._running is not None:  # `stop` raises it, but until then clients are only refused
                log.exception("the broker of a test has ended port=%d", self.port)
        finally:
            self._ready.set()

    def _on_ready(self, running: "Running") -> None:
        if self.has_faults:
            self.faults.begin()
        running.services.intercept = self._seam
        self._running = running
        self.port = running.port
        self._ready.set()

    def _settings(self) -> "BrokerConfig":
        from odradek.gateway.config import load_config

        url = self._storage if "://" in self._storage else url_of_directory(Path(self._storage).absolute())
        settings = {
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "odradek.storage": url,
            "group.initial.rebalance.delay.ms": "0",  # so that the first consumer gets its partitions at once
            "odradek.log.retry.backoff.max.ms": "200",  # so that a disk with space again is noticed at once
            **self._config,
        }
        return load_config(overrides=settings, environ={})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await in_thread(self.start, abandons=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.stop, abandons=False)


class AsyncTestBroker(AsyncTestKafka):
    """The methods of `TestBroker` that wait, for tests of asyncio and Trio."""

    def __init__(self, kafka: TestBroker) -> None:
        super().__init__(kafka)
        self.snapshot = awaited(kafka.snapshot)
        self.reset = awaited(kafka.reset)
        self.restart = awaited(kafka.restart)
        self.advance = awaited(kafka.advance)
        self.rebalance = awaited(kafka.rebalance)
        self.expire_session = awaited(kafka.expire_session)
        self.move_leader = awaited(kafka.move_leader)
        self.disconnect = awaited(kafka.disconnect)


def broker(
    storage: str | Path = "memory://",
    config: "Mapping[str, SettingValue] | None" = None,
    *,
    topics: "Topics | None" = None,
    like: str | None = None,
) -> TestBroker:
    """A broker for a `with` or `async with` block; see `TestBroker`."""
    return TestBroker(storage, config, topics=topics, like=like)
