"""Requests from this node to other nodes: the client that the quorum, replication and the coordinators share.

A `Peer` is another node by its id and endpoint. `await peer.call(request, version, timeout_ms)` sends a request and
waits for its response. There is one connection, made by the first call that needs it; requests are pipelined on it, and
responses come in the order of the requests, as Kafka's protocol requires. So a response whose correlation id is not
that of the oldest request ends the connection.

    call ─► slot (max_in_flight) ─► connection (made, or waited for, with back-off) ─► frame sent ─► response
               │                          │ dial failed                                   │ broken, late, wrong
               └── time-out               └── PeerDisconnectedError                       └── PeerCallError

- A node answers the requests of one connection one after the other: a Fetch that waits for records holds up requests
  sent after it. Requests that must not wait for each other use separate `Peers`, and so separate connections.
- A call that times out ends the connection, as in Kafka: later requests on the connection would be late, too, and this
  is the only way to detect a node that lost power or its network.
- A call ends once, with its response or with an error. After an error the request may or may not have been carried out;
  a call does not repeat it.
- The connection belongs to tasks of the peer's nursery and not to the callers: a cancelled call leaves the connection
  intact, and its response is dropped when it arrives.
- After a dial that failed, and after a connection that was lost, the next dial waits, at first `backoff_ms`, twice as
  long after each further failure up to `backoff_max_ms`, with a jitter of a fifth. A response resets the back-off.
- All I/O goes through `Environment`, so that the same code runs in the simulation.
"""

from odradek.gateway.peers.errors import (
    PeerCallError,
    PeerDisconnectedError,
    PeerRequestError,
    PeerResponseError,
    PeerTimedOutError,
)
from odradek.gateway.peers.limits import PeerLimits
from odradek.gateway.peers.peers import Peers

__all__ = [
    "PeerCallError",
    "PeerDisconnectedError",
    "PeerLimits",
    "PeerRequestError",
    "PeerResponseError",
    "PeerTimedOutError",
    "Peers",
]
