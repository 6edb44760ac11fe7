"""The limit, in seconds, within which every client must be served again: the sum of time-outs of brokers and clients.

    FAILOVER_S   a controller is elected, the session of a failed broker expires, and other brokers lead
    CLIENT_S     a client's request times out, it finds the new leader or coordinator, and joins its group again
    BUSY_S       the processing time of all that on a busy machine

The same limits apply to a real Kafka (`ODRADEK_COMPAT_SUBJECT=jvm`).
"""

from __future__ import annotations

from typing import Final

SESSION_S: Final = 4.0
"""`broker.session.timeout.ms` of these clusters. By default it is 9 s."""
ELECTION_S: Final = 3.0
"""`controller.quorum.fetch.timeout.ms` and `controller.quorum.election.timeout.ms`, by default 2 s and 1 s."""
ANSWER_S: Final = 5.0
"""A client's time-out for a request: `request.timeout.ms` of Java (30 s by default), `socket.timeout.ms` of librdkafka
(60 s by default)."""
METADATA_S: Final = 5.0
"""The interval after which a client refreshes metadata without an error (5 minutes by default)."""
GROUP_S: Final = 6.0
"""`session.timeout.ms` of members of classic groups."""
CONSUMER_SESSION_S: Final = 45.0
"""`group.consumer.session.timeout.ms`, by default."""
TRANSACTION_S: Final = 8.0
"""`transaction.timeout.ms`: the time for which a transaction without its producer blocks consumers."""
CLEANUP_S: Final = 10.0
"""`transaction.abort.timed.out.transaction.cleanup.interval.ms`, by default."""
BUSY_S: Final = 20.0
"""For starting processes and for processing, on a machine with two busy cores."""

FAILOVER_S: Final = ELECTION_S + SESSION_S
"""The time until other brokers lead the partitions of a failed broker, which may have been the active controller."""
CLIENT_S: Final = ANSWER_S + 2 * GROUP_S
"""A classic member's request times out, its session expires, and it waits for the expiry of its old membership."""
TRIES: Final = 3
"""The number of successive requests (for metadata, records, a coordinator) that a client may send to a broker that
hangs."""
CUT_OFF_S: Final = 80.0
"""The time for which a client may get old metadata from a broker that is cut off: until Java's `max.block.ms` (20 s) is
over, or the application closes a librdkafka client, in the worst case after two calls of 30 s. Meanwhile an open
transaction blocks consumers."""

_MORE_S: Final = {
    # a client of the new protocol that fails cannot leave its group at a coordinator that hangs
    "SIGSTOP beyond the session": TRIES * ANSWER_S + CONSUMER_SESSION_S,
    "links of the leader cut both ways": METADATA_S + CUT_OFF_S,
    "links of the leader cut one way": METADATA_S + CUT_OFF_S,
    "link of two brokers cut": METADATA_S + CUT_OFF_S,
    # other brokers lead after this if a broker cannot write
    "full disk": SESSION_S,
    "kill -9 of producers": TRANSACTION_S + CLEANUP_S,
    "kill -9 of members": CONSUMER_SESSION_S,
}


def bound_s(fault: str) -> float:
    """The limit in seconds, from the beginning of a fault or from its end."""
    return FAILOVER_S + CLIENT_S + _MORE_S.get(fault, 0.0) + BUSY_S
