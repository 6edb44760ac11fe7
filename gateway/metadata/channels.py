"""The channels of one node to the active controller: one for each purpose, all with the node's limits."""

from collections.abc import Awaitable, Callable

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.metadata.active import Leadership
from odradek.gateway.metadata.channel import ControllerChannel
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.peers import PeerLimits
from odradek.wire.schema.schema import Message


class Channels:
    """Makes channels whose tasks run in `nursery`."""

    def __init__(self, env: Environment, nursery: trio.Nursery, leadership: Leadership, config: BrokerConfig) -> None:
        self._env = env
        self._nursery = nursery
        self._leadership = leadership
        self._node_id = config.node_id
        self._limits = PeerLimits(connect_timeout_ms=config.socket_connection_setup_timeout_ms)

    def channel(self, purpose: str, decide: Callable[[Message], Awaitable[Message]]) -> ControllerChannel:
        """A channel for `purpose`, which identifies its connection in the controller's log; see `ControllerChannel`."""
        client_id = f"node-{self._node_id}-{purpose}"
        return ControllerChannel(self._env, self._nursery, self._leadership, decide, client_id, self._limits)

    def deciding(self, purpose: str, controller: Controller) -> ControllerChannel:
        """A channel whose requests `controller` decides on while this node is the active controller."""

        async def decide(request: Message) -> Message:
            from odradek.gateway.metadata.operations import operation_of

            return await controller.decide(operation_of(request), request)

        return self.channel(purpose, decide)
