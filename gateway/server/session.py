"""The broker's state of a client for the lifetime of its connection."""

from odradek.wire.values import immutable


@immutable
class Session:
    """The properties of a client's connection that requests use.

    `peer` is the client as `host:port`, for logs; `peer_host` its address alone; `listener` the name of the listener
    that it connected to; `is_controller` is True if that is a listener for controllers, `is_of_nodes` if clients have
    other listeners.
    """

    peer: str
    peer_host: str
    listener: str
    is_controller: bool = False
    is_of_nodes: bool = False

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it, with a leading slash."""
        return f"/{self.peer_host}"
