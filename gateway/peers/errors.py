"""Errors of a call to another node that got no response. But for PeerRequestError it may have been carried out."""


class PeerCallError(Exception):
    """A call without a response; one of those below. `node_id` is the called node."""

    def __init__(self, node_id: int, message: str) -> None:
        super().__init__(f"node {node_id}: {message}")
        self.node_id = node_id


class PeerDisconnectedError(PeerCallError):
    """The node cannot be connected to, or the connection ended before the response came."""


class PeerTimedOutError(PeerCallError):
    """No response within the time-out of the call, or of an earlier call on the connection."""


class PeerRequestError(PeerCallError):
    """The request cannot be encoded, and was not sent: a bug of ours."""


class PeerResponseError(PeerCallError):
    """The received frame is no response to the request: another correlation id, malformed, or too long."""
