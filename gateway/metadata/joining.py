"""The start of a node whose quorum has other members: it joins the quorum before it has the cluster id.

The node opens the metadata log and joins the quorum first. The first leader of a new cluster generates the cluster id
and appends it to the metadata log, from which the other nodes take it. Decisions that need the complete image (which
logs are strays, which strays belong to a partition again) wait until the image has caught up with the leader's.
"""

import logging
from functools import partial

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import CoordinatorUnavailable, MetadataLostError, PartitionUnavailable, StartError
from odradek.gateway.metadata.advice import advice_for
from odradek.gateway.metadata.cluster_id import CLUSTER_ID, ClusterId
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.feed import MetadataFeed
from odradek.gateway.metadata.node_id import NodeId
from odradek.gateway.metadata.other_nodes import OtherNodes
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.reading import MetadataReader
from odradek.gateway.metadata.starting import refuse_unless_alone
from odradek.gateway.quorum import QuorumDriver
from odradek.gateway.replication.replicas import Replicas
from odradek.gateway.replication.strays import take_back
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.storage_backends.interface import Store, StoreError
from odradek.wire.errors import ProtocolError

log = logging.getLogger(__name__)


async def join_cluster(
    config: BrokerConfig,
    store: Store,
    env: Environment,
    quorum: QuorumDriver,
    controller: Controller,
    publisher: MetadataPublisher,
    reader: MetadataReader,
    replicas: Replicas,
    nursery: trio.Nursery,
) -> str:
    """Open the log, and run the quorum in tasks of `nursery`; returns the cluster's id, empty if it is not known yet.

    Raises StartError when the store is another node's or another cluster's, or when its metadata log cannot be read, or
    is missing on a controller although other logs exist. A node that is only a broker fetches a missing one again.
    """
    cluster_id = ClusterId(store, env, config.layers.static.get(CLUSTER_ID, ""))
    feed = MetadataFeed(quorum, controller, publisher, reader, cluster_id.new)
    await Membership(config, store, env, quorum, publisher, replicas, feed, cluster_id).start(nursery)
    return cluster_id.text


class Membership:
    """Joins a node to its cluster; the text of `cluster_id` is empty until it is known."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        env: Environment,
        quorum: QuorumDriver,
        publisher: MetadataPublisher,
        replicas: Replicas,
        feed: MetadataFeed,
        cluster_id: ClusterId,
    ) -> None:
        self._cluster_id = cluster_id
        self._config = config
        self._owner = NodeId(store, env, config.node_id)
        self._store = store
        self._env = env
        self._quorum = quorum
        self._publisher = publisher
        self._replicas = replicas
        self._feed = feed

    async def start(self, nursery: trio.Nursery) -> None:
        """See `join_cluster`."""
        properties = await self._env.run_blocking(self._store.properties)
        await self._owner.check(properties)
        self._cluster_id.read(properties)
        holds_log = await self._env.run_blocking(partial(self._store.holds, METADATA_KEY))
        if not holds_log and self._config.node.is_controller:
            await refuse_unless_alone(self._config, self._store, self._env, "no metadata log")
        try:
            await self._quorum.open()
        except MetadataLostError as error:
            raise StartError(f"{error}: {await advice_for(self._config, self._store, self._env)}") from error
        except (PartitionUnavailable, ProtocolError) as error:
            raise StartError(f"the metadata log cannot be read: {error.__cause__ or error}") from error
        nursery.start_soon(self._quorum.run)
        nursery.start_soon(self._feed.run)
        nursery.start_soon(self._settle)

    async def _settle(self) -> None:
        """Adopt the cluster id of the metadata log, and act on its complete image, until cancelled.

        A StartError, for another cluster's store, ends the nursery.
        """
        await self._feed.caught_up.wait()
        image = self._publisher.logged
        await self._cluster_id.take_logged(image.cluster_id)
        log.info("member of cluster id=%s node_id=%d", image.cluster_id, self._quorum.settings.node_id)
        try:
            await take_back(image, self._store, self._env, self._quorum.settings.node_id)
            await self._owner.claim()
        except (StoreError, CoordinatorUnavailable) as error:
            log.warning("cannot note whose the store is, tried again at the next start cause=%s", error)
        self._replicas.image_is_current()
        await OtherNodes(self._store, self._env, self._quorum, self._publisher).run()
