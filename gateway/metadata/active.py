"""The active controller: the leader of the metadata quorum, which alone decides on changes of metadata."""

from typing import Protocol

from odradek.gateway.env.signals import Watchable
from odradek.gateway.quorum import QuorumDriver
from odradek.wire.values import immutable


@immutable
class ActiveController:
    """The active controller, and its address for brokers and other controllers."""

    node_id: int
    endpoint: tuple[str, int]


class Leadership(Protocol):
    """What this node knows of the active controller."""

    @property
    def is_active(self) -> bool:
        """True if it is this node, and its metadata is loaded, so that it decides."""
        ...

    @property
    def active(self) -> ActiveController | None:
        """The active controller, or None while there is none or it is not known here."""
        ...

    @property
    def changes(self) -> Watchable:
        """Notified whenever one of the two may have changed."""
        ...


class QuorumLeadership:
    """The active controller as the quorum's driver reports it.

    `epoch` is the one in which this node's controller decides; the controller sets it once it is loaded.
    """

    def __init__(self, quorum: QuorumDriver) -> None:
        self.epoch: int | None = None
        self.changes = quorum.changes
        self._quorum = quorum

    @property
    def is_active(self) -> bool:
        """See `Leadership.is_active`."""
        return self.epoch is not None and self._quorum.active_epoch == self.epoch

    @property
    def active(self) -> ActiveController | None:
        """See `Leadership.active`."""
        leader_id = self._quorum.leader_id
        endpoint = self._quorum.endpoint_of(leader_id)
        return None if endpoint is None else ActiveController(leader_id, endpoint)
