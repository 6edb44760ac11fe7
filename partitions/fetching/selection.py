"""Selects the replica that a consumer reads from in its own rack (KIP-392, RackAwareReplicaSelector)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of `replica.selector.class` that enables rack-aware selection, as in Kafka."""
LEADER_ONLY: Final = "org.apache.kafka.common.replica.LeaderSelector"
"""Kafka's other class: consumers fetch from the leader, as without a class."""


class Candidate(NamedTuple):
    """An in-sync replica, as known to the leader."""

    broker_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    last_caught_up_ms: int


def nearest_replica(
    rack: str, leader_rack: str | None, fetch_offset: int, candidates: Iterable[Candidate]
) -> int | None:
    """Returns the follower in the consumer's rack that is the furthest ahead; None: read from the leader.

    None if the leader is in that rack itself, or no follower there has the offset.
    """
    if rack == leader_rack:
        return None
    near = [
        each
        for each in candidates
        if each.rack == rack and each.log_start_offset <= fetch_offset <= each.log_end_offset
    ]
    if not near:
        return None
    return max(near, key=lambda each: (each.log_end_offset, each.last_caught_up_ms)).broker_id
