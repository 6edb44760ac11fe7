"""Why a call to another node has no response. What was asked may have been carried out or not."""


class PeerCallError(Exception):
    """A call without a response; one of the three below. `node_id` is the node that was called."""

    def __init__(self, node_id: int, message: str) -> None:
        super().__init__(f"node {node_id}: {message}")
        self.node_id = node_id


class PeerDisconnectedError(PeerCallError):
    """The node cannot be connected to, or the connection ended before the response came."""


class PeerTimedOutError(PeerCallError):
    """No response within the time of the call, or of one before it on the connection."""


class PeerResponseError(PeerCallError):
    """What came is no response to the request: another correlation id, a malformed or too long frame."""
