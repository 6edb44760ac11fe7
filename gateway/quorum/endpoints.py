"""The endpoints of controllers for each other: from the log, the settings, and responses of other nodes."""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.coordinator.quorum.values import NO_NODE, Answer
from odradek.gateway.errors import received_error
from odradek.gateway.quorum.metadata_log import MetadataReplica
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Message

log = logging.getLogger(__name__)

Endpoint = tuple[str, int]

_OTHER_CLUSTER: Final = (
    "the controller at %s:%d belongs to another cluster than the data of this node cluster_id=%s: correct the address "
    "(controller.quorum.voters, controller.quorum.bootstrap.servers), or the directory (log.dirs)"
)


class _LedAt(NamedTuple):
    """The endpoint of the leader of an epoch."""

    epoch: int
    leader_id: int
    endpoint: Endpoint


class ControllerEndpoints:
    """The endpoints of controllers known to `node_id`.

    `configured` come from the settings; `listener` is the name of the listener that controllers use for each other.
    """

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
        """The endpoint of a node; None if unknown.

        An endpoint announced for the leader of this epoch takes precedence over the log: after a move, only that leader
        has the record of its new endpoint.
        """
        if self._led_at is not None and self._led_at[:2] == (epoch, node_id):
            return self._led_at.endpoint
        logged = self._replica.voters
        voter = None if logged is None else logged.voters.get(node_id)
        known = None if voter is None else voter.endpoints.get(self._listener)
        return known or self._announced.get(node_id)

    def leads_at(self, epoch: int, leader_id: int, endpoint: Endpoint) -> None:
        """Store the endpoint of the leader of an epoch, as announced by itself or by another node."""
        if leader_id not in (NO_NODE, self._node_id) and (self._led_at is None or epoch >= self._led_at.epoch):
            self._led_at = _LedAt(epoch, leader_id, endpoint)

    def learn(self, answer: Answer, announced: Mapping[int, Endpoint]) -> None:
        """Store the endpoints that came with a response."""
        self._announced.update(announced)
        if answer.leader_id in announced:
            self.leads_at(answer.epoch, answer.leader_id, announced[answer.leader_id])

    def note_refused(self, endpoint: Endpoint, response: Message, cluster_id: str) -> None:
        """Log a response that has only a top-level error; `cluster_id` is that of this node's requests."""
        error = received_error(getattr(response, "error_code", ErrorCode.NONE))
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            kind = (error, endpoint)
            self._replica.repeats.note(kind, log, logging.ERROR, _OTHER_CLUSTER, *endpoint, cluster_id)
        else:
            log.debug("refused in the quorum by=%s:%d error=%s", *endpoint, error.name)

    @property
    def of_voters(self) -> Mapping[int, Mapping[str, Endpoint]]:
        """The voters and their endpoints for controllers, from the log, or else from the settings."""
        logged = self._replica.voters
        if logged is not None:
            return {each.key.id: each.endpoints for each in logged.voters.voters}
        return {node: {self._listener: at} for node, at in self._configured.items() if node >= 0}
