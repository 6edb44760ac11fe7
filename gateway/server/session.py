"""What the broker knows of a client for as long as its connection lasts."""

from odradek.wire.values import immutable


@immutable
class Session:
    """The properties of a client's connection that requests use.

    `peer` is the other side as `host:port`, for logs; `peer_host` its address alone; `listener` the name of the
    listener that it connected to, and `is_controller` whether that is one for controllers.
    """

    peer: str
    peer_host: str
    listener: str
    is_controller: bool = False

    @property
    def client_host(self) -> str:
        """The client's address as Kafka writes it, with a leading slash."""
        return f"/{self.peer_host}"
