"""The peers of one purpose: each node once, at its most recent endpoint."""

from typing import TYPE_CHECKING

import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.peers.limits import PeerLimits

if TYPE_CHECKING:  # imported with the first peer, so that a broker that is alone starts faster
    from odradek.gateway.peers.peer import Peer


class Peers:
    """Other nodes by id. Two purposes that must not wait for each other's responses have separate `Peers`."""

    def __init__(
        self, env: Environment, nursery: trio.Nursery, client_id: str, limits: PeerLimits | None = None
    ) -> None:
        self._env = env
        self._nursery = nursery
        self._client_id = client_id
        self._limits = limits or PeerLimits()
        self._peers: dict[int, Peer] = {}

    def at(self, node_id: int, endpoint: tuple[str, int]) -> "Peer":
        """The peer for the node; it is called at `endpoint` from now on. Nothing is dialled before the first call."""
        peer = self._peers.get(node_id)
        if peer is None:
            from odradek.gateway.peers.peer import Peer

            peer = Peer(self._env, self._nursery, node_id, endpoint, self._client_id, self._limits)
            self._peers[node_id] = peer
        else:
            peer.move(endpoint)
        return peer

    def forget(self, node_id: int) -> None:
        """Close the connection to a node that is no longer called; no error if there is none."""
        peer = self._peers.pop(node_id, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        """End all connections. Idempotent."""
        for node_id in list(self._peers):
            self.forget(node_id)
