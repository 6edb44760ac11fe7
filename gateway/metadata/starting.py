"""The start of a sole voter's metadata: checks that the logs exist, registers the broker, explains a failed start.

A broker without others is registered, and serves, as it starts: no other has its partitions. Among others it registers
as they do (`lifecycle/`). A node that is only a controller founds the cluster, and registers no broker.

If a metadata log is missing or empty while other logs exist, it is never created anew: every topic would be unknown.
"""

import logging
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import CoordinatorUnavailable, MetadataLostError, StartError
from odradek.gateway.metadata.cluster_id import CLUSTER_ID, ClusterId
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.node_id import NodeId
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.reading import MetadataReader
from odradek.gateway.quorum.stored import OTHER_NODES, SOME
from odradek.gateway.replication.strays import take_back
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.storage_backends.interface import Store, StoreError
from odradek.wire.records.errors import InvalidRecordBatch

log = logging.getLogger(__name__)

Listeners = Mapping[str, tuple[str, int]]


async def start_metadata(
    metadata: MetadataPublisher,
    reader: MetadataReader,
    controller: Controller,
    store: Store,
    env: Environment,
    listeners: Listeners,
    config: BrokerConfig,
    incarnation_id: UUID,
) -> str:
    """Load the metadata log, take back logs in it, register a broker without others; returns the cluster's id.

    Raises StartError when the log is damaged or missing, another cluster's or another node's, and StoreError.
    """
    owner = NodeId(store, env, config.node_id)
    cluster_id = ClusterId(store, env, config.layers.static.get(CLUSTER_ID, ""))
    properties = await env.run_blocking(store.properties)
    await owner.check(properties)
    cluster_id.read(properties)
    is_new = not await env.run_blocking(partial(store.holds, METADATA_KEY))
    if is_new:
        await refuse_unless_alone(config, store, env, "no metadata log")
        await cluster_id.format(owner.properties)
    action = "read"
    try:
        await reader.open()
        await controller.load()
        metadata.begin_counting()
        if metadata.image.cluster_id:
            await cluster_id.take_logged(metadata.image.cluster_id)
        elif not is_new:
            await refuse_unless_alone(config, store, env, "an empty metadata log")
            await cluster_id.format(owner.properties)
        await take_back(metadata.image, store, env, config.node_id)
        action = "written"
        if not config.node.is_broker:
            await _found(controller, metadata, config.node_id, cluster_id.text)
        elif is_only_broker(metadata.logged, config.node_id):
            await controller.register(cluster_id.text, listeners, config.rack, incarnation_id)
    except CoordinatorUnavailable as error:
        cause = await _cause(error, config, store, env)
        raise StartError(f"the metadata log cannot be {action}: {cause}") from error
    except MetadataLostError as error:
        raise StartError(f"{error}: {await _advice(config, store, env)}") from error
    await owner.claim()
    return cluster_id.text


def is_only_broker(image: MetadataImage, node_id: int) -> bool:
    """True if no other broker exists, and this one needs only its registration to serve again."""
    own = image.brokers.get(node_id)
    return not image.brokers or (own is not None and own.is_active and len(image.brokers) == 1)


async def _found(controller: Controller, metadata: MetadataPublisher, node_id: int, cluster_id: str) -> None:
    """Found the cluster. Removes a broker that earlier versions registered for such a node, without listeners."""
    try:
        await controller.found(cluster_id)
        leftover = metadata.logged.brokers.get(node_id)
        if leftover is not None and not leftover.listeners:
            from odradek.coordinator.metadata.controller.unregister_broker import remove_leftover

            log.info("the registration of a broker is removed, for this node is a controller node_id=%d", node_id)
            while not await controller.decide(remove_leftover, node_id):
                pass
    except CoordinatorUnavailable:
        if not metadata.logged.cluster_id:
            raise
        log.warning("the metadata log takes no writes: the cluster goes on as it is node_id=%d", node_id)


async def refuse_unless_alone(config: BrokerConfig, store: Store, env: Environment, what: str) -> None:
    """Raise StartError when other logs exist, or the cluster has other nodes.

    Only this rare case lists the logs, since that is slow with many of them.
    """
    others = len([key for key in await env.run_blocking(store.partitions) if key != METADATA_KEY])
    had_log = (await env.run_blocking(store.properties)).get(OTHER_NODES) == SOME
    if others or had_log:
        location = (await env.run_blocking(store.space)).location
        raise StartError(
            f"{location} holds the logs of {others} partitions and {what} (directory {METADATA_KEY.topic}-0.…), so "
            f"their topics are unknown: {await _advice(config, store, env)}. To begin with an empty cluster, use "
            "another directory"
        )


async def _advice(config: BrokerConfig, store: Store, env: Environment) -> str:
    """See `advice_for`, which is imported when it is needed, so that a broker starts faster."""
    from odradek.gateway.metadata.advice import advice_for

    return await advice_for(config, store, env)


async def _cause(error: CoordinatorUnavailable, config: BrokerConfig, store: Store, env: Environment) -> str:
    """The text of the first StoreError among the causes, which contains advice; else that of the innermost cause."""
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, StoreError):
        cause = cause.__cause__
    if isinstance(cause, InvalidRecordBatch):
        return f"it holds what was not written to it ({cause}); {await _advice(config, store, env)}"
    return str(cause) if cause is not error else "see the error above"
