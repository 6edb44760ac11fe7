"""Registration, heartbeats and shutdown of a node's broker; periodic tasks of the active controller."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.lifecycle.clean_end import NO_EPOCH, CleanEnd
from odradek.gateway.lifecycle.incarnation import Incarnation
from odradek.gateway.metadata.channels import Channels
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.starting import is_only_broker
from odradek.gateway.replication.replicas import Replicas
from odradek.storage_backends.interface import Store

if TYPE_CHECKING:
    from odradek.gateway.lifecycle.broker import BrokerLifecycle

PERIODIC_TASKS_S: Final = 0.25
"""The interval at which the active controller checks for expired sessions and elections that are due."""


class NodeLife:
    """The lifecycle of a node in a cluster. That of a sole voter's broker begins once its image has another broker.

    `ready` is set when clients may be served, `among_others` when the node is not, or no longer, a cluster of one.
    `run` must run from the node's start.
    """

    _broker: "BrokerLifecycle | None"

    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        store: Store,
        channels: Channels,
        controller: Controller,
        metadata: MetadataPublisher,
        listeners: Mapping[str, tuple[str, int]],
        incarnation: Incarnation,
        replicas: Replicas,
    ) -> None:
        self.ready = trio.Event()
        self.among_others = trio.Event()
        self._config = config
        self._env = env
        self._channels = channels
        self._controller = controller
        self._metadata = metadata
        self._listeners = listeners
        self._incarnation = incarnation
        self._replicas = replicas
        self._clean_end = CleanEnd(store, env)
        self._broker = None
        if not config.node.is_broker:
            self.ready.set()
        elif not config.node.is_alone:
            self._broker = self._lifecycle()
        if not config.node.is_broker or not config.node.is_alone:
            self.among_others.set()

    def _lifecycle(self) -> "BrokerLifecycle":
        from odradek.gateway.lifecycle.broker import BrokerLifecycle

        return BrokerLifecycle(
            self._env,
            self._config,
            self._channels.deciding("heartbeats", self._controller),
            self._metadata,
            lambda: self._metadata.logged.cluster_id,
            self._listeners,
            self._clean_end,
            self._incarnation,
            self._replicas.repeats,
            self._replicas.lost_for,
        )

    @property
    def is_alone(self) -> bool:
        """True if this is a cluster of one: a sole voter, which is the only broker."""
        return not self.among_others.is_set()

    def on_published(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        """Check whether the image has another broker."""
        if self.is_alone and not is_only_broker(image, self._config.node_id):
            self.among_others.set()

    def metadata_is_loaded(self) -> None:
        """Note that a sole voter has loaded its metadata; without other brokers it is registered, and serves."""
        if self.is_alone:
            self.ready.set()

    async def run(self) -> None:
        """Run until cancelled; on a node that is only a broker, at most until it is released.

        Raises, in exception groups, what `BrokerLifecycle.run` raises.
        """
        if self.is_alone:
            await self.among_others.wait()
        async with trio.open_nursery() as nursery:
            if self._config.node.is_controller:
                nursery.start_soon(self._run_periodic_tasks)
            if self._config.node.is_broker:
                self._broker = self._broker or self._lifecycle()
                nursery.start_soon(self._broker.run)
                await self._broker.await_listed()
                self.ready.set()

    async def _run_periodic_tasks(self) -> None:
        while True:
            slept_ms = self._env.monotonic_ms()
            await trio.sleep(PERIODIC_TASKS_S)
            self._allow_for_pause(self._env.monotonic_ms() - slept_ms)
            await self._controller.run_periodic_tasks()

    def _allow_for_pause(self, slept_ms: int) -> None:
        """Restart the sessions after a suspension of a sole voter, which stays leader but received no heartbeats."""
        session_ms = self._config.values["broker.session.timeout.ms"]
        assert isinstance(session_ms, int)
        if self._config.node.is_alone and slept_ms > session_ms // 2:
            self._controller.begin_sessions()

    async def leave(self) -> None:
        """Move this broker's leaderships to other brokers, within `odradek.drain.timeout.ms`."""
        if self._broker is None or not self.ready.is_set() or not self._config.values["controlled.shutdown.enable"]:
            return
        if self._config.node.is_alone and is_only_broker(self._metadata.logged, self._config.node_id):
            return  # the other brokers are gone by now
        await self._broker.shut_down(self._config.drain_timeout_ms)

    async def logs_closed(self) -> None:
        """Mark the shutdown as clean: all logs are closed."""
        if self._broker is not None and self._broker.epoch != NO_EPOCH:
            await self._clean_end.put(self._broker.epoch)
