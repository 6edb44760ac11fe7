"""One broker: store, metadata, replicas, coordinators, server.

start: open the store ─► bind the listeners ─► replay the metadata log ─► register ─► accept
stop: move leaderships away ─► stop coordinators and quorum ─► refuse new connections, answer requests in flight
      ─► close logs ─► close the store

Groups and transactions are loaded in the background; until then most requests get COORDINATOR_LOAD_IN_PROGRESS.
"""

import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext, MetadataConfig
from odradek.gateway.assembly import Services
from odradek.gateway.config import BrokerConfig, Endpoint
from odradek.gateway.config.rules import host_and_port
from odradek.gateway.coordinators.brokers import OtherBrokers
from odradek.gateway.coordinators.groups import GroupCoordinator
from odradek.gateway.coordinators.producer_ids import ProducerIds
from odradek.gateway.coordinators.regexes import TopicRegexes
from odradek.gateway.coordinators.transactions import TransactionCoordinator
from odradek.gateway.early_imports import import_early
from odradek.gateway.env.deadlines import Deadlines
from odradek.gateway.env.environment import Environment, ProductionEnvironment
from odradek.gateway.env.loop_watch import LoopRecord
from odradek.gateway.env.outside_calls import OutsideCalls
from odradek.gateway.env.repeats import REPORT_EVERY_S, Repeats
from odradek.gateway.env.side_work import SideWork
from odradek.gateway.env.signals import Ticker
from odradek.gateway.env.stop_signals import STOP_SIGNALS
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable, StartError, first_error
from odradek.gateway.lifecycle import Incarnation, NodeLife
from odradek.gateway.maintenance.cleaner import LogCleaner
from odradek.gateway.maintenance.retention import RetentionTask
from odradek.gateway.metadata.active import QuorumLeadership
from odradek.gateway.metadata.channel import ControllerChannel, ControllerUnreachableError
from odradek.gateway.metadata.channels import Channels
from odradek.gateway.metadata.client import ControllerClient
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.forwarding import Forwarder, not_enveloped
from odradek.gateway.metadata.metadata_log import metadata_log_config, quorum_settings
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.reading import MetadataReader
from odradek.gateway.metadata.settings import LiveSettings
from odradek.gateway.metadata.snapshotting import Snapshotter
from odradek.gateway.metadata.starting import start_metadata
from odradek.gateway.net.descriptors import limit_warnings
from odradek.gateway.net.open_files import allow_many_open_files
from odradek.gateway.net.transport import Listener
from odradek.gateway.notify import READY, STOPPING, notify
from odradek.gateway.quorum import MetadataReplica, QuorumDriver
from odradek.gateway.replication.alter_partition import NoAnswerError
from odradek.gateway.replication.commit import Backlog
from odradek.gateway.replication.manager import ReplicationManager
from odradek.gateway.replication.recovery import Backoff
from odradek.gateway.replication.replica import LogResources
from odradek.gateway.replication.replicas import Replicas
from odradek.gateway.replication.throttles import Throttles
from odradek.gateway.server.server import Server
from odradek.partitions.fetching.selection import RACK_AWARE
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.storage_backends.interface import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from odradek.gateway.outbox.service import OutboxService
    from odradek.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

log = logging.getLogger(__name__)

T = TypeVar("T")

ALTER_PARTITION_VERSION: Final = 3
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread may keep the interpreter lock from the Trio thread; Python's default of 5 ms adds latency."""
COLLECT_AFTER_OBJECTS: Final = 20_000
"""The number of new objects after which the garbage collector runs during a request.

Requests leave no reference cycles. With Python's default of 700 the collector visits many objects that are still in
use, which takes a tenth of a small request. A join of two hundred members creates ten thousand objects: with a
threshold below that, all these members would wait 4 ms for a collection.
"""
OLDER_AFTER: Final = 1
"""The middle generation is collected after more than this number of young collections; a larger number prolongs it."""
OLDEST_AFTER: Final = 100
"""The number of middle collections before a full one, which takes a third of a second with ten thousand connections."""
COLLECT_EVERY_S: Final = 0.5
WORTH_COLLECTING: Final = 1_000
"""The number of new objects from which on they are collected every half second, mostly between requests."""


class Broker:
    """An opened broker: everything is loaded, and clients that connect are queued until it serves."""

    def __init__(self, services: Services, listeners: dict[str, Sequence[Listener]]) -> None:
        self.services = services
        self._server = Server(services, listeners)
        self._stop = trio.Event()

    @property
    def config(self) -> BrokerConfig:
        """Its current settings."""
        return self.services.config

    @property
    def address(self) -> tuple[str, int]:
        """The advertised host and port of the first listener."""
        return next(iter((self.services.advertised | self.services.advertised_controllers).values()))

    def disconnect(self, takes: Callable[[str], bool]) -> int:
        """Close the connections whose peer, as `host:port`, `takes` accepts; returns their number."""
        return self._server.disconnect(takes)

    def stop(self) -> None:
        """Begin to drain; `serve` returns when that is done. Idempotent."""
        self._stop.set()

    async def serve(self) -> None:
        """Serve clients until `stop`, then answer requests in flight. Cancellation ends it at once, like a crash."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._server.run)
            nursery.start_soon(self.services.groups.run, self._server.catch_up)
            nursery.start_soon(self.services.retention.run)
            nursery.start_soon(self.services.cleaner.run)
            nursery.start_soon(self.services.transactions.run, self._server.catch_up)
            if self.services.outbox is not None:
                nursery.start_soon(self.services.outbox.run)
            metadata_log, metadata = self.services.quorum.replica, self.services.metadata
            nursery.start_soon(Snapshotter(metadata_log, metadata, self.services.env, self.config).run)
            nursery.start_soon(self._expire_producers_forever)
            nursery.start_soon(self._close_idle_logs_forever)
            nursery.start_soon(self._report_repeats_forever)
            nursery.start_soon(self.services.life.run)
            if self.config.node.is_alone:
                nursery.start_soon(self._note_other_nodes)
            await self._stop.wait()
            log.info("draining node_id=%d", self.config.node_id)
            await self.services.life.leave()  # clients are served meanwhile
            self.services.stopping = True
            self.services.replicas.wake_all()  # waiting fetches respond, since the broker is stopping
            self.services.transactions.stop()
            self.services.groups.stop()
            await self.services.quorum.stop()
            await self._server.drain()
            nursery.cancel_scope.cancel()

    async def _note_other_nodes(self) -> None:
        """For a sole voter. Other nodes do so once they have caught up (`metadata/joining.py`)."""
        await self.services.life.among_others.wait()
        from odradek.gateway.metadata.other_nodes import OtherNodes

        services, store = self.services, self.services.replicas.resources.store
        await OtherNodes(store, services.env, services.quorum, services.metadata).run()

    async def _expire_producers_forever(self) -> None:
        while True:
            await trio.sleep(self.config.producer_id_expiration_check_interval_ms / 1000)
            for replica in self.services.replicas.opened():
                try:
                    replica.expire_producers()
                except PartitionUnavailable:
                    continue  # the producers of a log that is unavailable expire after it has been loaded again

    async def _close_idle_logs_forever(self) -> None:
        while True:
            await trio.sleep(self.config.log_idle_close_ms / 1000)
            try:
                await self.services.replicas.close_idle()
            except StoreError as error:
                message = "cannot close idle logs cause=%s"
                self.services.repeats.note(message, log, logging.WARNING, message, error)

    async def _report_repeats_forever(self) -> None:
        while True:
            await trio.sleep(REPORT_EVERY_S)
            self.services.repeats.report()


@asynccontextmanager
async def open_broker(config: BrokerConfig, env: Environment) -> "AsyncGenerator[Broker]":
    """Open everything that a broker needs, and close it at the end.

    Raises StoreError (locked by another process, another format), OSError (a port in use) and StartError (the metadata
    log cannot be read or written, or the store is another node's or cluster's). Errors after the listeners are bound,
    and errors of background tasks while the broker is open, are raised in exception groups.
    """
    with env.watch_loop(config.loop_stall_warn_ms) as loop:
        async with _open_watched(config, env, loop) as broker:
            yield broker


@asynccontextmanager
async def _open_watched(config: BrokerConfig, env: Environment, loop: LoopRecord) -> "AsyncGenerator[Broker]":
    store = await env.run_blocking(lambda: env.open_store(config.storage_url))
    listeners: dict[str, Sequence[Listener]] = {}
    try:
        await _bind(config, env, listeners)
        async with trio.open_nursery() as nursery:
            advertised = _advertised(env, config.advertised_listeners, listeners)
            controllers = _advertised(env, config.node.advertised_controller_listeners, listeners)
            services = await _assemble(config, env, store, nursery, advertised, controllers, loop)
            yield Broker(services, listeners)
            services.replication.stop()
            with trio.CancelScope(shield=True):
                are_closed = await services.replicas.close()
                await services.controller.close()
                if are_closed:
                    await services.life.logs_closed()
            nursery.cancel_scope.cancel()
    finally:
        for bound in listeners.values():
            for listener in bound:
                listener.close()
        with trio.CancelScope(shield=True):
            await env.run_blocking(store.close)


async def _bind(config: BrokerConfig, env: Environment, listeners: dict[str, Sequence[Listener]]) -> None:
    """Bind all listeners, and add each to `listeners` at once: the caller closes them if a later one fails."""
    for endpoint in (*config.listeners, *config.node.controller_listeners):
        listeners[endpoint.name] = await env.listen(endpoint.host, endpoint.port)


def _advertised(
    env: Environment, endpoints: Sequence[Endpoint], listeners: dict[str, Sequence[Listener]]
) -> dict[str, tuple[str, int]]:
    """The advertised addresses; an empty host is replaced by the machine's name, port 0 by the bound port."""
    addresses: dict[str, tuple[str, int]] = {}
    for endpoint in endpoints:
        bound_port = listeners[endpoint.name][0].address[1]
        addresses[endpoint.name] = (endpoint.host or env.host_name(), endpoint.port or bound_port)
    return addresses


def _replicas(
    config: BrokerConfig,
    env: Environment,
    store: Store,
    nursery: trio.Nursery,
    settings: LiveSettings,
    replication: ReplicationManager,
    incarnation: Incarnation,
) -> Replicas:
    resources = LogResources(
        store,
        env,
        Ticker(nursery),
        Deadlines(env, nursery),
        Backlog(config.commit_max_pending_bytes),
        config.commit_max_bytes,
        Repeats(),
        Backoff(config.log_retry_backoff_ms, config.log_retry_backoff_max_ms),
        proposals=replication.proposals,
        throttles=Throttles(config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000),
    )
    return Replicas(
        resources,
        config.node_id,
        settings.log_config,
        kept=frozenset({METADATA_KEY.topic}),
        selects_by_rack=config.replica_selector_class == RACK_AWARE,
        leads_in=incarnation.leads_in,
    )


async def _alter_partition(
    channel: ControllerChannel, config: BrokerConfig, request: "AlterPartitionRequest"
) -> "AlterPartitionResponse":
    from odradek.wire.messages.alter_partition import AlterPartitionResponse

    try:
        response = await channel.call(request, ALTER_PARTITION_VERSION, config.request_timeout_ms)
    except (ControllerUnreachableError, CoordinatorUnavailable) as error:
        raise NoAnswerError(str(error)) from error
    assert isinstance(response, AlterPartitionResponse)
    return response


def _metadata_config(config: BrokerConfig) -> MetadataConfig:
    fences_itself = not (config.node.is_alone and config.node.is_broker)
    return MetadataConfig(config.node_id, config.layers.static, fences_itself)


async def _assemble(
    config: BrokerConfig,
    env: Environment,
    store: Store,
    nursery: trio.Nursery,
    advertised: dict[str, tuple[str, int]],
    advertised_controllers: dict[str, tuple[str, int]],
    loop: LoopRecord,
) -> Services:
    settings = LiveSettings(config)
    metadata = MetadataPublisher(config.release)
    replication = ReplicationManager(env, nursery, lambda: settings.config, lambda: metadata.image)
    incarnation = Incarnation(config, env.uuid())
    replicas = _replicas(config, env, store, nursery, settings, replication, incarnation)
    metadata_log = MetadataReplica(METADATA_KEY, metadata_log_config(config), config.node_id, replicas.resources)
    in_quorum, logged_id = quorum_settings(config, env.host_name()), lambda: metadata.logged.cluster_id
    quorum = QuorumDriver(in_quorum, store, env, metadata_log, nursery, logged_id, advertised_controllers)
    leadership = QuorumLeadership(quorum)
    static = _metadata_config(config)
    controller = Controller(quorum, env, static, metadata, leadership)
    reader = MetadataReader(quorum, metadata, static)
    context, wait_ms = partial(_decision_context, metadata, settings), config.offsets_commit_timeout_ms
    channels = Channels(env, nursery, leadership, config)
    controllers = ControllerClient(controller, leadership, channels.deciding("requests", controller), metadata, context)
    replication.start(replicas, partial(_alter_partition, channels.deciding("replication", controller), config))
    forwarder = Forwarder(channels.channel("forwarding", not_enveloped), config.request_timeout_ms)
    regexes = TopicRegexes(lambda: metadata.image, SideWork(env, config.regex_threads), nursery)
    groups = GroupCoordinator(metadata, controllers, replicas, env, config.group, regexes, commit_timeout_ms=wait_ms)
    ids, connect = ProducerIds(controllers), partial(OtherBrokers, env, nursery, config, lambda: metadata.image)
    transactions = TransactionCoordinator(
        metadata, controllers, replicas, env, config.transaction, groups, ids, connect, nursery
    )
    retention = RetentionTask(replicas, env, lambda: settings.config)
    cleaner = LogCleaner(replicas, retention, env, lambda: settings.config)
    life = NodeLife(config, env, store, channels, controller, metadata, advertised, incarnation, replicas)
    outbox = _outbox(store, env, replicas, metadata, settings, controller)
    _act_on_metadata(metadata, settings, replicas, replication, groups, transactions, retention, cleaner, life, outbox)
    if config.node.is_alone:
        cluster_id = await start_metadata(metadata, reader, controller, store, env, advertised, config, incarnation.id)
        life.metadata_is_loaded()
        replicas.image_is_current()
        nursery.start_soon(quorum.run)
    else:
        from odradek.gateway.metadata.joining import join_cluster

        cluster_id = await join_cluster(config, store, env, quorum, controller, metadata, reader, replicas, nursery)
    return Services(
        env,
        cluster_id,
        settings,
        metadata,
        quorum,
        controller,
        leadership,
        controllers,
        forwarder,
        life,
        replicas,
        replication,
        groups,
        ids,
        transactions,
        retention,
        cleaner,
        advertised,
        advertised_controllers,
        loop,
        outbox,
    )


def _act_on_metadata(
    metadata: MetadataPublisher,
    settings: LiveSettings,
    replicas: Replicas,
    replication: ReplicationManager,
    groups: GroupCoordinator,
    transactions: TransactionCoordinator,
    retention: RetentionTask,
    cleaner: LogCleaner,
    life: NodeLife,
    outbox: "OutboxService | None",
) -> None:
    """Register the functions that react to changes of metadata, in the order in which they are called."""

    def wake_maintenance(delta: MetadataDelta, image: MetadataImage) -> None:
        changed = settings.changed_topics(delta, image)
        if changed:
            retention.wake(changed)
        if delta.configs.changed:
            cleaner.wake()

    def configure_groups(_delta: MetadataDelta, _image: MetadataImage) -> None:
        groups.configure(settings.config.group)

    # Settings come first, so that the others use those of the same image.
    metadata.call(
        settings.on_published,
        replicas.on_published,
        replication.on_published,
        configure_groups,
        wake_maintenance,
        groups.on_published,
        transactions.on_published,
        life.on_published,
        *([] if outbox is None else [outbox.topics.on_published]),
    )


def _outbox(
    store: Store,
    env: Environment,
    replicas: Replicas,
    metadata: MetadataPublisher,
    settings: LiveSettings,
    controller: Controller,
) -> "OutboxService | None":
    outbox = store.outbox()
    if outbox is None:
        return None
    from odradek.gateway.outbox.service import OutboxService

    service = OutboxService(outbox, env, replicas, metadata, settings)
    controller.await_exported = service.topics.written
    return service


def _decision_context(metadata: MetadataPublisher, settings: LiveSettings) -> DecisionContext:
    return DecisionContext(metadata.image, settings.config.layers, settings.config.node_id)


class Running:
    """A running broker as the caller of `run_broker` uses it; `stop` may be called from any thread."""

    def __init__(self, broker: Broker) -> None:
        self.host, self.port = broker.address
        self.config = broker.config
        self._broker = broker
        self._calls = OutsideCalls()

    @property
    def services(self) -> Services:
        """The broker's services, for the broker's Trio thread only."""
        return self._broker.services

    @property
    def bootstrap(self) -> str:
        """The value for clients' `bootstrap.servers`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def disconnect(self, takes: Callable[[str], bool]) -> int:
        """Close the connections whose peer `takes` accepts, from another thread; returns their number."""

        async def close() -> int:
            return self._broker.disconnect(takes)

        return self._calls.run(close)

    def stop(self) -> None:
        """Begin to drain; `run_broker` returns when that is done. No error if it has already ended."""
        self._calls.begin(self._broker.stop)

    def call(self, function: "Callable[[Services], Awaitable[T]]", timeout_s: float | None = None) -> T:
        """Run `function` with the broker's services on its Trio thread, from another thread, and return its result.

        Raises what it raises, and what `OutsideCalls.run` does.
        """
        return self._calls.run(partial(function, self._broker.services), timeout_s)


def _never() -> bool:
    return False


def run_broker(
    config: BrokerConfig,
    on_ready: Callable[[Running], None],
    *,
    signals: bool = True,
    is_stopped: Callable[[], bool] = _never,
    around: Callable[[Environment], Environment] | None = None,
    clock: trio.abc.Clock | None = None,
) -> None:
    """Run a broker until it is stopped: by `Running.stop`, or with `signals` by SIGTERM or SIGINT, also at the start.

    `on_ready` is called on the Trio thread once the broker serves. With `signals` the process belongs to the broker:
    its limits are raised, and a service manager is notified when it serves and when it stops (`gateway.notify`).
    `is_stopped` tells whether a signal came before this function received signals. `around` may replace the real
    environment by one around it, for tests, and `clock` the loop's. Raises what `open_broker` raises; of an exception
    group, the first exception.
    """
    if signals:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.set_threshold(COLLECT_AFTER_OBJECTS, OLDER_AFTER, OLDEST_AFTER)
        allow_many_open_files()
    try:
        trio.run(_run, config, on_ready, signals, is_stopped, around, clock=clock)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


class _Stop:
    """Ends the start of a broker by cancelling `opening`, and a broker that is open by draining it."""

    def __init__(self) -> None:
        self.opening = trio.CancelScope()
        self.broker: Broker | None = None

    def __call__(self) -> None:
        if self.broker is None:
            self.opening.cancel()
        else:
            self.broker.stop()


async def _run(
    config: BrokerConfig,
    on_ready: Callable[[Running], None],
    signals: bool,
    is_stopped: Callable[[], bool],
    around: Callable[[Environment], Environment] | None,
) -> None:
    threads = config.commit_threads + config.inspect_threads + config.regex_threads
    env: Environment = ProductionEnvironment(threads=threads, max_open_files=config.log_max_open_files)
    if around is not None:
        env = around(env)
    stop = _Stop()
    async with trio.open_nursery() as nursery:
        if signals:
            await nursery.start(_stop_on_signal, stop)
            if is_stopped():
                log.info("stopping: a signal came before the start")
                stop()
        for warning in limit_warnings(config):
            log.warning("%s", warning)
        with stop.opening:
            await _open_and_serve(config, env, on_ready, signals, stop)
        nursery.cancel_scope.cancel()


async def _open_and_serve(
    config: BrokerConfig, env: Environment, on_ready: Callable[[Running], None], signals: bool, stop: _Stop
) -> None:
    async with open_broker(config, env) as broker, trio.open_nursery() as nursery:
        stop.broker = broker
        if signals:
            nursery.start_soon(collect_garbage)
        if config.metrics_listen is not None:
            await _serve_metrics(broker, nursery)
        nursery.start_soon(_call_when_ready, broker, env, on_ready, signals)
        await broker.serve()
        nursery.cancel_scope.cancel()


async def _serve_metrics(broker: Broker, nursery: trio.Nursery) -> None:
    """Begin to serve the endpoint for Prometheus. Raises StartError if a package for it is missing."""
    try:
        from odradek.gateway.metrics.endpoint import serve
    except ModuleNotFoundError as error:
        raise StartError(f"odradek.metrics.listen needs {error.name}: pip install 'odradek[metrics]'") from error
    address = host_and_port(broker.config.metrics_listen or "")
    assert address is not None, "checked with the configuration"
    await nursery.start(serve, broker.services, *address)


async def _call_when_ready(
    broker: Broker, env: Environment, on_ready: Callable[[Running], None], signals: bool
) -> None:
    """Call `on_ready` once clients are served; with `signals`, then notify the service manager and import modules."""
    services = broker.services
    await services.life.ready.wait()
    running = Running(broker)
    on_ready(running)
    if signals:
        notify(READY, f"serving clients at {running.bootstrap}")
        await import_early(env, lambda: services.stopping, is_alone=services.life.is_alone)


async def collect_garbage() -> None:
    """Collect cycles periodically, before there are so many new objects that a collection happens during a request."""
    while True:
        await trio.sleep(COLLECT_EVERY_S)
        new, looks, _ = gc.get_count()
        if new >= WORTH_COLLECTING:
            gc.collect(1 if looks > OLDER_AFTER else 0)


async def _stop_on_signal(stop: Callable[[], None], task_status: trio.TaskStatus[None]) -> None:
    """Call `stop` at the first signal; raise KeyboardInterrupt at the second."""
    with trio.open_signal_receiver(*STOP_SIGNALS) as received:
        task_status.started()
        async for number in received:
            log.info("stopping signal=%s", signal.Signals(number).name)
            notify(STOPPING, "answering the requests under way")
            stop()
            break
        async for number in received:
            raise KeyboardInterrupt(f"second signal {signal.Signals(number).name}")
