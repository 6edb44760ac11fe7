"""A node among others: as a broker it registers and leaves, as the active controller it keeps house."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.lifecycle.clean_end import NO_EPOCH, CleanEnd
from odradek.gateway.metadata.channels import Channels
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.storage_backends.interface import Store

if TYPE_CHECKING:
    from odradek.gateway.lifecycle.broker import BrokerLifecycle

HOUSEKEEPING_S: Final = 0.25
"""How often the active controller looks for sessions that are over and elections that are due."""


class NodeLife:
    """A node among others; a cluster of one has nothing to do, and is `ready` at once.

    `ready` is set when clients may be served. `run` has to run from the start of the node on.
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
        lost_for: Callable[[int], Sequence[object]],
    ) -> None:
        self.ready = trio.Event()
        self._config = config
        self._controller = controller
        self._clean_end = CleanEnd(store, env)
        self._broker = None
        if config.node.is_broker and not config.node.is_alone:
            from odradek.gateway.lifecycle.broker import BrokerLifecycle

            channel = channels.deciding("heartbeats", controller)
            self._broker = BrokerLifecycle(
                env,
                config,
                channel,
                metadata,
                lambda: metadata.logged.cluster_id,
                listeners,
                self._clean_end,
                lost_for,
            )
        else:
            self.ready.set()

    async def run(self) -> None:
        """Live until cancelled. Raises StartError when this broker cannot be in the cluster."""
        if self._config.node.is_alone:
            return
        async with trio.open_nursery() as nursery:
            if self._config.node.is_controller:
                nursery.start_soon(self._keep_house)
            if self._broker is not None:
                nursery.start_soon(self._broker.run)
                await self._broker.await_listed()
                self.ready.set()

    async def _keep_house(self) -> None:
        while True:
            await trio.sleep(HOUSEKEEPING_S)
            await self._controller.keep_house()

    async def leave(self) -> None:
        """Let others lead what this broker leads, as long as `odradek.drain.timeout.ms` allows."""
        if self._broker is not None and self.ready.is_set() and self._config.values["controlled.shutdown.enable"]:
            await self._broker.shut_down(self._config.drain_timeout_ms)

    async def logs_closed(self) -> None:
        """Note that this incarnation has ended in order: all logs are closed."""
        if self._broker is not None and self._broker.epoch != NO_EPOCH:
            await self._clean_end.put(self._broker.epoch)
