"""The services of one broker, which handlers use."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from odradek.coordinator.metadata.settings import DecisionContext
from odradek.gateway.env.request_memory import RequestMemory
from odradek.gateway.env.request_times import RequestTimes
from odradek.gateway.env.side_work import SideWork
from odradek.wire.api_keys import ADVERTISED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    from odradek.gateway.config import BrokerConfig
    from odradek.gateway.coordinators.groups import GroupCoordinator
    from odradek.gateway.coordinators.producer_ids import ProducerIds
    from odradek.gateway.coordinators.transactions import TransactionCoordinator
    from odradek.gateway.env.environment import Environment
    from odradek.gateway.env.loop_watch import LoopRecord
    from odradek.gateway.lifecycle import NodeLife
    from odradek.gateway.maintenance.cleaner import LogCleaner
    from odradek.gateway.maintenance.retention import RetentionTask
    from odradek.gateway.metadata.active import Leadership
    from odradek.gateway.metadata.client import ControllerClient
    from odradek.gateway.metadata.controller import Controller
    from odradek.gateway.metadata.forwarding import Forwarder
    from odradek.gateway.metadata.publisher import MetadataPublisher
    from odradek.gateway.metadata.settings import LiveSettings
    from odradek.gateway.outbox.service import OutboxService
    from odradek.gateway.quorum import QuorumDriver
    from odradek.gateway.replication.manager import ReplicationManager
    from odradek.gateway.replication.replicas import Replicas
    from odradek.partitions.fetching.sessions import FetchSessions

    Intercept: TypeAlias = Callable[[Any, Any, Any], Any]
    """Gives a request its route: takes the context, the message and the usual route, and returns a route."""


class Services:
    """One broker's services.

    `controller` makes the decisions while this node is the active controller, as `leadership` shows. `controllers`
    reaches the active controller on any node, and `forwarder` sends clients' requests to it. `life` is the node's
    registration and shutdown. `advertised` maps a listener's name to the host and port for clients,
    `advertised_controllers` does so for controllers' listeners. `loop` counts the turns of the event loop that took too
    long. `inspection` runs work on clients' records in worker threads, `matching` runs regular expressions. `outbox` is
    None if the store has none. `served` are the versions of each API for clients. `intercept` may give a decoded
    request another route, for tests; it is None in production.
    """

    def __init__(
        self,
        env: Environment,
        cluster_id: str,
        settings: LiveSettings,
        metadata: MetadataPublisher,
        quorum: QuorumDriver,
        controller: Controller,
        leadership: Leadership,
        controllers: ControllerClient,
        forwarder: Forwarder,
        life: NodeLife,
        replicas: Replicas,
        replication: ReplicationManager,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        transactions: TransactionCoordinator,
        retention: RetentionTask,
        cleaner: LogCleaner,
        advertised: dict[str, tuple[str, int]],
        advertised_controllers: dict[str, tuple[str, int]],
        loop: LoopRecord,
        outbox: OutboxService | None = None,
    ) -> None:
        release = settings.config.release
        self.served = ADVERTISED if release is None else release.served
        self.env = env
        self._cluster_id = cluster_id
        self.quorum = quorum
        self.settings = settings
        self.metadata = metadata
        self.controller = controller
        self.leadership = leadership
        self.controllers = controllers
        self.forwarder = forwarder
        self.life = life
        self.replicas = replicas
        self.replication = replication
        self.groups = groups
        self.producer_ids = producer_ids
        self.transactions = transactions
        self.retention = retention
        self.cleaner = cleaner
        self.advertised = advertised
        self.advertised_controllers = advertised_controllers
        self.repeats = replicas.repeats
        self.loop = loop
        self.outbox = outbox
        self.inspection = SideWork(env, settings.config.inspect_threads)
        self.matching = groups.regexes.work
        self.request_memory = RequestMemory(settings.config.queued_max_request_bytes, self.repeats)
        replicas.backlog.on_change = self.request_memory.count
        self.request_times = RequestTimes(env.monotonic_us)
        self.stopping = False
        self.intercept: Intercept | None = None

    @cached_property
    def fetch_sessions(self) -> FetchSessions:
        """The fetch sessions of all connections, imported with the first fetch, so that a broker starts faster."""
        from odradek.partitions.fetching.sessions import FetchSessions

        config = self.config
        return FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            lambda: self.env.random.randrange(1, 2**31),
            config.partitions_max,
        )

    @property
    def config(self) -> BrokerConfig:
        """The broker's current settings; read it each time, since some change at run time."""
        return self.settings.config

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty on a node that does not have it yet."""
        return self.metadata.logged.cluster_id or self._cluster_id

    def decision_context(self) -> DecisionContext:
        """The published image and the current settings, which decisions about configs depend on."""
        return DecisionContext(self.metadata.image, self.config.layers, self.config.node_id)

    def consumer_groups_enabled(self) -> bool:
        """True if the consumer protocol is served: configured, and finalised as `group.version` (KIP-848)."""
        finalized = self.metadata.features.finalized.get("group.version", 0) >= 1
        return finalized and self.config.group.consumer.enabled

    @staticmethod
    def logger_levels() -> Mapping[str, str]:
        """The levels of this process's loggers, as DescribeConfigs of BROKER_LOGGER shows them."""
        names = sorted(logging.Logger.manager.loggerDict)
        return {"root": logging.getLevelName(logging.getLogger().getEffectiveLevel())} | {
            name: logging.getLevelName(logging.getLogger(name).getEffectiveLevel()) for name in names
        }
