"""Where controllers listen to each other: as the log says, the settings, and the nodes that answer."""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.coordinator.quorum.values import NO_NODE, Answer
from odradek.gateway.quorum.metadata_log import MetadataReplica

Endpoint = tuple[str, int]


class _LedAt(NamedTuple):
    """Where the leader of an epoch listens."""

    epoch: int
    leader_id: int
    endpoint: Endpoint


class ControllerEndpoints:
    """Endpoints of controllers known to `node_id`. `configured` are from the settings; `listener` is controllers'."""

    def __init__(
        self, node_id: int, configured: Mapping[int, Endpoint], listener: str, replica: MetadataReplica
    ) -> None:
        self._node_id = node_id
        self._configured = configured
        self._listener = listener
        self._replica = replica
        self._announced = dict(configured)
        self._led_at: _LedAt | None = None

    def of(self, node_id: int, epoch: int) -> Endpoint | None:
        """Where a node listens; None if unknown.

        An endpoint announced for the leader of this epoch takes precedence over the log: after a move, only that
        leader has the record of its new endpoint.
        """
        if self._led_at is not None and self._led_at[:2] == (epoch, node_id):
            return self._led_at.endpoint
        named = self._replica.voters
        voter = None if named is None else named.voters.get(node_id)
        known = None if voter is None else voter.endpoints.get(self._listener)
        return known or self._announced.get(node_id)

    def leads_at(self, epoch: int, leader_id: int, endpoint: Endpoint) -> None:
        """The endpoint of the leader of an epoch, as announced by itself or by another node."""
        if leader_id not in (NO_NODE, self._node_id) and (self._led_at is None or epoch >= self._led_at.epoch):
            self._led_at = _LedAt(epoch, leader_id, endpoint)

    def learn(self, answer: Answer, announced: Mapping[int, Endpoint]) -> None:
        """Take the endpoints that came with an answer."""
        self._announced.update(announced)
        if answer.leader_id in announced:
            self.leads_at(answer.epoch, answer.leader_id, announced[answer.leader_id])

    @property
    def of_voters(self) -> Mapping[int, Mapping[str, Endpoint]]:
        """The voters, and where they listen to controllers, as the log says, or else the settings."""
        named = self._replica.voters
        if named is not None:
            return {each.key.id: each.endpoints for each in named.voters.voters}
        return {node: {self._listener: at} for node, at in self._configured.items() if node >= 0}
