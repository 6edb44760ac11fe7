"""Requests of this broker's coordinators to other brokers, at the inter-broker listener of each in the image."""

from collections.abc import Callable

import trio

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.peers import PeerDisconnectedError, PeerLimits, Peers
from odradek.wire.schema.schema import Message


class OtherBrokers:
    """Connections to other brokers for one purpose; its tasks run in `nursery`. `image()` is the newest image."""

    def __init__(
        self,
        env: Environment,
        nursery: trio.Nursery,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        purpose: str,
    ) -> None:
        self.node_id = config.node_id
        self._image = image
        self._listener = config.node.inter_broker_listener_name
        self.timeout_ms = config.request_timeout_ms
        limits = PeerLimits(connect_timeout_ms=config.socket_connection_setup_timeout_ms)
        self._peers = Peers(env, nursery, f"broker-{config.node_id}-{purpose}", limits)

    async def call(self, broker_id: int, request: Message, version: int) -> Message:
        """The broker's response within `request.timeout.ms`. Raises PeerCallError."""
        broker = self._image().brokers.get(broker_id)
        at = None if broker is None or broker.fenced else broker.listeners.get(self._listener)
        if at is None:
            raise PeerDisconnectedError(broker_id, f"it does not serve, or has no listener {self._listener}")
        return await self._peers.at(broker_id, (at.host, at.port)).call(request, version, self.timeout_ms)

    def leader_of(self, topic: str, index: int) -> int | None:
        """The id of a partition's leader, -1 while it has none; None if there is no such partition."""
        part = self._image().partition(topic, index)
        return None if part is None else part.leader
