"""A broker's replication: starts and updates fetchers, ISR proposals and checks for lagging followers.

`on_published` applies an image: the fetchers fetch from its leaders. Leaders' proposals go to the controller by
`alter_partition.py`. Leaders check for lagging followers every half `replica.lag.time.max.ms`, as in Kafka, and when a
broker is fenced or returns.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.peers import PeerDisconnectedError, PeerLimits, PeerResponseError, Peers
from odradek.gateway.replication.alter_partition import AlterPartitionSender
from odradek.gateway.replication.isr_changes import note_removed
from odradek.gateway.replication.replicas import Replicas
from odradek.wire.schema.schema import Message

if TYPE_CHECKING:  # a broker that is alone does not fetch, and starts faster without
    from odradek.gateway.replication.fetcher import FetcherSettings
    from odradek.gateway.replication.fetchers import FetcherLag, ReplicaFetchers
    from odradek.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from odradek.wire.messages.fetch import FetchRequest, FetchResponse
    from odradek.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

FETCH_VERSION: Final = 17
"""The version that followers send: the first with a directory, the last before requests contain the high watermark."""
LIST_OFFSETS_VERSION: Final = 9
FETCH_RESPONSE_MAX_BYTES: Final = 2**31 - 1
"""All that a frame can have, as in Kafka. The leader obeys the limits of the request, except for the first batch, whose
size nothing known to the follower limits: it may have been written under an earlier `max.message.bytes`. The memory for
a response grows with the bytes received."""

AskController = Callable[["AlterPartitionRequest"], Awaitable["AlterPartitionResponse"]]
"""Raises odradek.gateway.replication.alter_partition.NoAnswerError."""


class ReplicationManager:
    """The replication of one broker."""

    def __init__(
        self,
        env: Environment,
        nursery: trio.Nursery,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._env = env
        self._nursery = nursery
        self._config = config
        self._image = image
        self._node_id = config().node_id
        self._replicas: Replicas | None = None
        self._fetchers: ReplicaFetchers | None = None
        self._ask: AskController | None = None
        self._is_stopped = False
        self.proposals = AlterPartitionSender(self._node_id, self._own_epoch, self._alter_partition)

    def start(self, replicas: Replicas, ask: AskController) -> None:
        """Start the ISR proposals and the lag checks of these replicas; the image determines what to fetch.

        `ask` sends a request to the active controller; see `AlterPartitionSender`.
        """
        self._replicas, self._ask = replicas, ask
        self._nursery.start_soon(self.proposals.run)
        self._nursery.start_soon(self._watch_lag)

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Fetch from the leaders in the image. Called after `Replicas.on_published`."""
        assert self._replicas is not None
        if self._is_stopped:
            return
        if self._fetchers is None and any(broker_id != self._node_id for broker_id in image.brokers):
            self._fetchers = self._make_fetchers(self._replicas)
        if self._fetchers is not None:  # until there is another broker, no partition has a leader elsewhere
            self._fetchers.on_published(delta, image)
            note_removed(delta, image, self._node_id)
        if delta.changed_configs(ResourceType.BROKER):
            config = self._config()
            self._replicas.throttles.set_rates(
                config.leader_replication_throttled_rate, config.follower_replication_throttled_rate
            )
        # a broker that was fenced no longer holds back the high watermark
        if image.brokers is not delta.before.brokers:
            self._replicas.check_lag()

    def _make_fetchers(self, replicas: Replicas) -> "ReplicaFetchers":
        from odradek.gateway.replication.fetchers import ReplicaFetchers

        return ReplicaFetchers(
            self._node_id, self._env, self._nursery, replicas.get, self._connect, self._settings, replicas.repeats
        )

    def lags(self) -> "list[FetcherLag]":
        """The lag of this broker's followers; may be called from any thread."""
        return [] if self._fetchers is None else self._fetchers.lags()

    def stop(self) -> None:
        """End the fetchers, and start no more: the broker stops, and its logs are closed next."""
        self._is_stopped = True
        if self._fetchers is not None:
            self._fetchers.stop()

    async def _alter_partition(self, request: "AlterPartitionRequest") -> "AlterPartitionResponse":
        assert self._ask is not None, "no proposal is made before the start"
        return await self._ask(request)

    def _own_epoch(self) -> int | None:
        own = self._image().brokers.get(self._node_id)
        return None if own is None else own.epoch

    async def _watch_lag(self) -> None:
        assert self._replicas is not None
        while True:
            await trio.sleep(self._config().replica_lag_time_max_ms / 2000)
            if len(self._image().brokers) > 1:
                self._replicas.check_lag()

    def _settings(self) -> "FetcherSettings":
        from odradek.gateway.replication.fetcher import FetcherSettings

        config = self._config()
        return FetcherSettings(
            fetchers=config.num_replica_fetchers,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
            timeout_ms=config.replica_socket_timeout_ms,
        )

    def _connect(self, leader_id: int, number: int) -> "PeerEndpoint":
        limits = PeerLimits(max_response_bytes=FETCH_RESPONSE_MAX_BYTES)
        client_id = f"broker-{self._node_id}-fetcher-{number}"
        peers = Peers(self._env, self._nursery, client_id, limits)
        return PeerEndpoint(leader_id, peers, lambda: self._address_of(leader_id))

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        """The address of a broker for other brokers, as of the newest image."""
        broker = self._image().brokers.get(broker_id)
        at = None if broker is None else broker.listeners.get(self._config().node.inter_broker_listener_name)
        return None if at is None else (at.host, at.port)


class PeerEndpoint:
    """A leader over a separate connection; see `fetcher.LeaderEndpoint`."""

    def __init__(self, leader_id: int, peers: Peers, address: Callable[[], tuple[str, int] | None]) -> None:
        self._leader_id = leader_id
        self._peers = peers
        self._address = address

    async def fetch(self, request: "FetchRequest", timeout_ms: int) -> "FetchResponse":
        """See `LeaderEndpoint.fetch`."""
        from odradek.wire.messages.fetch import FetchResponse

        response = await self._call(request, FETCH_VERSION, timeout_ms)
        if isinstance(response, FetchResponse):
            return response
        raise PeerResponseError(self._leader_id, "the answer is none to a Fetch")

    async def list_offsets(self, request: "ListOffsetsRequest", timeout_ms: int) -> "ListOffsetsResponse":
        """See `LeaderEndpoint.list_offsets`."""
        from odradek.wire.messages.list_offsets import ListOffsetsResponse

        response = await self._call(request, LIST_OFFSETS_VERSION, timeout_ms)
        if isinstance(response, ListOffsetsResponse):
            return response
        raise PeerResponseError(self._leader_id, "the answer is none to a ListOffsets")

    async def _call(self, request: Message, version: int, timeout_ms: int) -> Message:
        address = self._address()
        if address is None:
            raise PeerDisconnectedError(self._leader_id, "the metadata has no address of it")
        return await self._peers.at(self._leader_id, address).call(request, version, timeout_ms)

    def close(self) -> None:
        """See `LeaderEndpoint.close`."""
        self._peers.close()
