"""Which node is the active controller: the leader of the metadata quorum, which alone decides on its changes."""

from typing import Protocol

from odradek.gateway.env.signals import Watchable
from odradek.wire.values import immutable


@immutable
class ActiveController:
    """The active controller, and where it listens to brokers and other controllers."""

    node_id: int
    endpoint: tuple[str, int]


class Leadership(Protocol):
    """What a node knows of the active controller; the quorum's driver tells it."""

    @property
    def is_active(self) -> bool:
        """Whether it is this node, and its metadata is loaded: it decides."""
        ...

    @property
    def active(self) -> ActiveController | None:
        """The active controller, None while there is none or it is not known here."""
        ...

    @property
    def changes(self) -> Watchable:
        """Notified whenever one of the two may have changed."""
        ...


class SoleLeadership:
    """The leadership of a quorum of one: this node's, always."""

    def __init__(self, node_id: int, endpoint: tuple[str, int] = ("", 0)) -> None:
        self.is_active = True
        self.active = ActiveController(node_id, endpoint)
        self.changes = Watchable()
