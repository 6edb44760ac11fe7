"""Advice for a node whose metadata log is damaged or lost, which depends on whether its cluster has other nodes."""

from typing import Final

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.metadata.other_nodes import signs_of_others
from odradek.partitions.metadata_log import METADATA_TOPIC
from odradek.storage_backends.interface import REPLACE_NODE, Store

_REPLACE: Final = (
    f"{REPLACE_NODE}, and restore no backup of its metadata log, which lacks what the node has acknowledged since"
)


def advice_among_others(location: str, *, is_controller: bool) -> str:
    """Advice for one of several nodes."""
    if is_controller:
        return _REPLACE
    return (
        f"move the directories {METADATA_TOPIC}-0.… out of {location} and start this node again: it fetches the "
        "metadata log from the controllers"
    )


async def advice_for(config: BrokerConfig, store: Store, env: Environment) -> str:
    """Advice for this node. Raises StoreError."""
    location = (await env.run_blocking(store.space)).location
    sign = signs_of_others(await env.run_blocking(store.properties), config.node, env.host_name())
    if sign:
        advice = advice_among_others(location, is_controller=config.node.is_controller)
        return f"this node is one of several ({sign}): {advice}"
    import shlex

    return (
        f"restore it from a backup; or run `odradek recover --data {shlex.quote(location)}`, which makes it again from "
        "the partitions' directories"
    )
