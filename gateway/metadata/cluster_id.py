"""The cluster's id as a property of the store, like `cluster.id` in Kafka's meta.properties.

A sole voter has it before it reads or writes the first metadata record. The metadata log has a copy of it, which is
used if the property is missing: in the store of a node that joins a quorum, in a store of an older version that had
only the copy, or after a loss of the properties.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import StartError
from odradek.gateway.metadata.ids import random_ids, text_of
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

CLUSTER_ID: Final = "odradek.cluster.id"
"""The setting that gives a new cluster its id."""
PROPERTY: Final = "cluster.id"


class ClusterId:
    """The id that a store is formatted with; `text` is empty while there is none."""

    def __init__(self, store: Store, env: Environment, configured: str) -> None:
        self.text = ""
        self._store = store
        self._env = env
        self._configured = configured

    def read(self, properties: Mapping[str, str]) -> None:
        """Take the id from the store's properties. Raises StartError when another one is configured."""
        self.text = properties.get(PROPERTY, "")
        self._check_configured()

    def new(self) -> str:
        """The id of a new cluster, which its first leader chooses: the store's, the configured, or a random one."""
        return self.text or self._configured or text_of(next(random_ids(self._env)))

    async def format(self, with_properties: Mapping[str, str]) -> None:
        """Write the configured id, or a random one, unless the store has one; `with_properties` are written with it.

        Raises StartError.
        """
        if self.text:
            return
        chosen = self.new()
        try:
            await self._write({PROPERTY: chosen, **with_properties})
        except StoreError as error:
            raise StartError(f"the cluster's id cannot be stored: {error}") from error
        self.text = chosen

    async def take_logged(self, logged: str) -> None:
        """Compare the store's id with the metadata log's, or adopt that if the store has none. Raises StartError.

        If writing the property fails, the next start writes it.
        """
        if self.text and self.text != logged:
            raise StartError(
                f"the metadata log is of cluster {logged}, and the store was formatted for {self.text} ({PROPERTY} in "
                "its properties): the files of two clusters were mixed"
            )
        if not self.text:
            self.text = logged
            self._check_configured()
            try:
                await self._write({PROPERTY: logged})
            except StoreError as error:
                log.warning("cannot store the cluster's id, tried again at the next start cause=%s", error)

    def _check_configured(self) -> None:
        if self.text and self._configured not in ("", self.text):
            raise StartError(
                f"This storage belongs to cluster {self.text}, not to {self._configured}. "
                f"({CLUSTER_ID}; CLUSTER_ID in a container)"
            )

    async def _write(self, properties: Mapping[str, str]) -> None:
        await self._env.run_blocking(partial(self._store.set_properties, properties))
