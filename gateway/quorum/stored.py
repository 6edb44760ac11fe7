"""What a node of the quorum stores beside its log, as properties of its store.

    quorum.state     the election state
    directory.id     the directory's id (KIP-853)
    cluster.id       the cluster's id, written by `gateway/metadata/cluster_id.py`
    kraft.version    `founding` while this node, the first voter of a quorum whose log contains its voters, has not yet
                     written them; 1 once the log has durably contained voters; otherwise 0, or missing
    other.nodes      1 if the cluster has other brokers or voters; 0, or missing, if this node knows of none; written by
                     `gateway/metadata/other_nodes.py`

So a log without voters is complete while the node founds its quorum, or if the settings contain the voters. With 1 it
has lost them, and the node never assumes that it is the only voter.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final
from uuid import UUID

import trio

from odradek.coordinator.quorum.election_state import from_text, to_text
from odradek.coordinator.quorum.values import ElectionState
from odradek.coordinator.quorum.voters import KRAFT_VERSION, NOT_IN_LOG, VotersAt
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.errors import StartError
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

ELECTION_STATE: Final = "quorum.state"
DIRECTORY_ID: Final = "directory.id"
CLUSTER_PROPERTY: Final = "cluster.id"
OTHER_NODES: Final = "other.nodes"
SOME, NONE = "1", "0"
FOUNDING: Final = "founding"
IN_LOG: Final = "1"
OF_SETTINGS: Final = "0"
FORGOTTEN: Final[Mapping[str, str]] = {ELECTION_STATE: "", KRAFT_VERSION: OF_SETTINGS}
"""The properties of a cluster of one, which stores no election state."""
RETRY_S: Final = 0.1
"""The pause after a failed write, in seconds."""


class StoredState:
    """The properties of one store. `load` must be called first."""

    def __init__(self, store: Store, env: Environment, repeats: Repeats) -> None:
        self.properties: Mapping[str, str] = {}
        self.directory_id = UUID(int=0)
        self.cluster_id = ""
        self._store = store
        self._env = env
        self._repeats = repeats
        self._version = OF_SETTINGS

    async def load(self) -> ElectionState:
        """Returns the election state. Raises StoreError, and StartError if it is damaged."""
        properties = self.properties = await self._env.run_blocking(self._store.properties)
        try:
            election = from_text(properties.get(ELECTION_STATE, ""))
        except ValueError as error:
            raise StartError(f"the store's property {ELECTION_STATE} is damaged: {error}") from error
        self.cluster_id = properties.get(CLUSTER_PROPERTY, "")
        new = self._env.uuid()
        self.directory_id = UUID(properties[DIRECTORY_ID]) if DIRECTORY_ID in properties else new
        self._version = properties.get(KRAFT_VERSION, OF_SETTINGS)
        return election

    @property
    def version(self) -> str:
        """The stored `kraft.version`: FOUNDING, IN_LOG or OF_SETTINGS."""
        return self._version

    def is_outdated(self, voters: VotersAt | None, durable_end_offset: int) -> bool:
        """True if `kraft.version` must be stored again for these voters of a log that is durable up to the offset."""
        return self._version != self._version_with(voters, durable_end_offset)

    def _version_with(self, voters: VotersAt | None, durable_end_offset: int) -> str:
        if voters is None or voters.offset >= durable_end_offset:
            return self._version
        return FOUNDING if voters.offset == NOT_IN_LOG else IN_LOG

    async def save(self, election: ElectionState, voters: VotersAt | None, durable_end_offset: int) -> None:
        """Store the election state and `kraft.version` durably; repeat until that succeeds."""
        version = self._version_with(voters, durable_end_offset)
        values = {
            ELECTION_STATE: to_text(election),
            DIRECTORY_ID: str(self.directory_id),
            **({} if version == OF_SETTINGS else {KRAFT_VERSION: version}),
        }
        while True:
            try:
                await self._env.run_blocking(partial(self._store.set_properties, values))
            except StoreError as error:
                message = "cannot store the election state, and so take no part in the quorum cause=%s"
                self._repeats.note(message, log, logging.ERROR, message, error)
                await trio.sleep(RETRY_S)
            else:
                self._version = version
                return
