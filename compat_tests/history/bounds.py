"""Within how many seconds every client must be served again: what the settings of brokers and clients add up to.

    FAILOVER_S   a controller is elected, and a silent broker loses its session: others lead
    CLIENT_S     a client gives a request up, finds the new leader or coordinator, and joins its group again
    BUSY_S       what all that takes on a busy machine

The same happens with a real Kafka (`ODRADEK_COMPAT_SUBJECT=jvm`).
"""

from __future__ import annotations

from typing import Final

SESSION_S: Final = 4.0
"""`broker.session.timeout.ms` of these clusters. By default it is 9 s."""
ELECTION_S: Final = 3.0
"""`controller.quorum.fetch.timeout.ms` and `controller.quorum.election.timeout.ms`, by default 2 s and 1 s."""
ANSWER_S: Final = 5.0
"""After this a client gives a request up: `request.timeout.ms` of Java (30 s by default), `socket.timeout.ms` of
librdkafka (60 s by default)."""
METADATA_S: Final = 5.0
"""After this a client asks for metadata although nothing has failed (5 minutes by default)."""
GROUP_S: Final = 6.0
"""`session.timeout.ms` of members of classic groups."""
CONSUMER_SESSION_S: Final = 45.0
"""`group.consumer.session.timeout.ms`, by default."""
TRANSACTION_S: Final = 8.0
"""`transaction.timeout.ms`: so long a transaction without its producer holds consumers up."""
CLEANUP_S: Final = 10.0
"""`transaction.abort.timed.out.transaction.cleanup.interval.ms`, by default."""
BUSY_S: Final = 20.0
"""For starts of processes and for work, on a machine with two busy cores."""

FAILOVER_S: Final = ELECTION_S + SESSION_S
"""Within this others lead what a broker led that is silent: it may have been the active controller, too."""
CLIENT_S: Final = ANSWER_S + 2 * GROUP_S
"""A member of a classic group gives a request up, loses its membership, and waits until the group has forgotten it."""
TRIES: Final = 3
"""So many requests in a row a client may send to a broker that hangs: for metadata, for records, for a coordinator."""
CUT_OFF_S: Final = 80.0
"""So long a client may be answered by a broker that is cut off, with metadata of before the fault: until Java's
`max.block.ms` (20 s) is over, or the application gives up librdkafka's, in the worst case after two calls of 30 s.
Meanwhile an open transaction holds consumers up."""

_MORE_S: Final = {
    "SIGSTOP beyond the session": TRIES * ANSWER_S,
    "links of the leader cut both ways": METADATA_S + CUT_OFF_S,
    "links of the leader cut one way": METADATA_S + CUT_OFF_S,
    "link of two brokers cut": METADATA_S + CUT_OFF_S,
    # a broker that cannot write lets others lead after this
    "full disk": SESSION_S,
    "kill -9 of producers": TRANSACTION_S + CLEANUP_S,
    "kill -9 of members": CONSUMER_SESSION_S,
}


def bound_s(fault: str) -> float:
    """The bound, from the begin of a fault or from its end."""
    return FAILOVER_S + CLIENT_S + _MORE_S.get(fault, 0.0) + BUSY_S
