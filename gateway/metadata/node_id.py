"""The node's id as a property of the store, like `node.id` in Kafka's meta.properties.

The contents of a store belong to the node that wrote it: the metadata identifies its replicas by that id, and its vote
counts as that node's. So a store is never used under another id.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import StartError
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

PROPERTY: Final = "node.id"


def stored_node_id(properties: Mapping[str, str], configured: int) -> int:
    """The id of the node whose store has these properties: the configured one if they have none."""
    return int(properties.get(PROPERTY) or configured)


class NodeId:
    """The owner of a store: call `check` before the store is used, `claim` once it is.

    `properties` contains the id, so that it can be written together with the store's other properties.
    """

    def __init__(self, store: Store, env: Environment, node_id: int) -> None:
        self._store = store
        self._env = env
        self._node_id = node_id
        self.properties: Mapping[str, str] = {PROPERTY: str(node_id)}

    async def check(self, properties: Mapping[str, str]) -> None:
        """Raise StartError when the store's properties have another node's id."""
        stored = properties.get(PROPERTY, "")
        if stored not in ("", str(self._node_id)):
            location = (await self._env.run_blocking(self._store.space)).location
            raise StartError(
                f"Stored node id {stored} doesn't match configured node.id {self._node_id} in {location}: set "
                f"node.id={stored}, or use another directory"
            )

    async def claim(self) -> None:
        """Store this node's id. If the write fails, the next start tries again."""
        try:
            if PROPERTY not in await self._env.run_blocking(self._store.properties):
                await self._env.run_blocking(partial(self._store.set_properties, self.properties))
        except StoreError as error:
            log.warning("cannot store the node's id, tried again at the next start cause=%s", error)
