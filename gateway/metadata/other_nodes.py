"""Whether the cluster has other nodes: noted in the store, for the time when the metadata log is lost.

A metadata log that is made again from the partitions of one node fits a cluster of one only: the metadata log and the
partitions of other nodes would contradict it. So `odradek recover`, and the advice of a start that fails, depend on
this.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

import trio

from odradek.coordinator.quorum.election_state import from_text
from odradek.coordinator.quorum.values import NO_NODE
from odradek.coordinator.quorum.voters import KRAFT_VERSION
from odradek.gateway.config import NodeConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.metadata.node_id import stored_node_id
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.quorum import QuorumDriver
from odradek.gateway.quorum.stored import ELECTION_STATE, NONE, OF_SETTINGS, OTHER_NODES, SOME
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

CHECK_S: Final = 1.0
"""The minimum time between two checks, in seconds."""


class OtherNodes:
    """Keeps the property of a store up to date with the published image and the voters."""

    def __init__(self, store: Store, env: Environment, quorum: QuorumDriver, metadata: MetadataPublisher) -> None:
        self._store = store
        self._env = env
        self._quorum = quorum
        self._metadata = metadata
        self._stored: str | None = None

    async def run(self) -> None:
        """Run until cancelled. The image must be complete, so that a change of the property is one of the cluster."""
        changed = Signal()
        watched = (self._metadata.changes, self._quorum.changes)
        for each in watched:
            each.watch(changed)
        try:
            while True:
                try:
                    await self._note()
                except StoreError as error:
                    message = "cannot store whether the cluster has other nodes cause=%s"
                    self._quorum.replica.repeats.note(message, log, logging.WARNING, message, error)
                else:
                    await changed.wait()
                await trio.sleep(CHECK_S)
        finally:
            for each in watched:
                each.unwatch(changed)

    async def _note(self) -> None:
        if self._stored is None:
            self._stored = (await self._env.run_blocking(self._store.properties)).get(OTHER_NODES, NONE)
        found = SOME if self._has_others() else NONE
        if found != self._stored:
            await self._env.run_blocking(partial(self._store.set_properties, {OTHER_NODES: found}))
            self._stored = found

    def _has_others(self) -> bool:
        settings, logged = self._quorum.settings, self._quorum.replica.voters
        voters = settings.voters if logged is None else logged.voters.directories
        return bool({*self._metadata.logged.brokers, *voters} - {settings.node_id})


def signs_of_others(properties: Mapping[str, str], node: NodeConfig, machine: str) -> str:
    """Return what shows that the node is one of several, in its settings or its store's properties; empty if nothing.

    `machine` is the host name of a listener on all interfaces.
    """
    if not node.is_controller:
        return "it is only a broker"
    if not (node.is_alone or node.founds_quorum(machine)):
        return "its settings name other controllers"
    if properties.get(OTHER_NODES) == SOME:
        return "its cluster has other nodes"
    return _signs_in_election(properties, stored_node_id(properties, node.node_id))


def _signs_in_election(properties: Mapping[str, str], own_id: int) -> str:
    """The signs in the election state. A cluster of one stores none; an only voter votes for itself."""
    text = properties.get(ELECTION_STATE, "")
    if not text:
        return ""
    try:
        election = from_text(text)
    except ValueError:
        return f"the property {ELECTION_STATE} of its store is damaged"
    if properties.get(KRAFT_VERSION, OF_SETTINGS) == OF_SETTINGS:
        return f"the property {ELECTION_STATE} of its store is that of one of several voters, or of an observer"
    voted_id = NO_NODE if election.voted is None else election.voted.id
    others = {election.leader_id, voted_id} - {NO_NODE, own_id}
    return f"the property {ELECTION_STATE} of its store names node {min(others)}" if others else ""
