"""The states of a classic group.

Theory of operation
-------------------
A group distributes its work in *rebalances*. A rebalance has a join phase, in which every member sends the protocols
that it supports, and a sync phase, in which one member, the leader, sends the assignments of all. Both replies are
held: JoinGroup's until the join phase ends, SyncGroup's until the leader's request has arrived. The result is a
*generation*: a number, the members, the protocol and the assignments.

Only a finished generation is durable. The leader's SyncGroup writes one record with all of it, and an empty generation
is written when the last member has left. Everything before that (held requests, members that have joined, the number of
the next generation) is soft: a coordinator that restarts continues from the last generation written, and members of a
later one get UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION and join again. So, apart from the creation of a group, every
change *into* Stable, Empty and Dead is made by replay of a record, and every other one by an operation:

    from                to                   by         because
    (none)              Empty                operation  first JoinGroup of an unknown group; its record follows
    (none)              Empty                replay     first offset committed by a consumer that is not a member
    (none)              Stable               operation  a consumer group is converted; its record follows
    Empty               PreparingRebalance   operation  a member joins; the initial rebalance is delayed
    Stable              PreparingRebalance   operation  a member joins, leaves or expires, or the leader rejoins
    CompletingRebalance PreparingRebalance   operation  the same, or the sync time-out; held SyncGroups are refused
    PreparingRebalance  CompletingRebalance  operation  all have joined, or the rebalance timeout has passed
    CompletingRebalance Stable               replay     the record that the leader's SyncGroup wrote
    PreparingRebalance  Empty                replay     the record of an empty generation
    any                 Dead                 replay     the tombstone: deleted, or empty and its offsets expired

Sources: Kafka's `ClassicGroup`, KIP-62 (rebalance timeout), KIP-134 (initial delay), KIP-345 (static members), KIP-394
(MEMBER_ID_REQUIRED), KIP-814 (skip_assignment).
"""

from enum import Enum


class GroupState(Enum):
    """A classic group's state; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state, the states that may follow; any other is a bug."""

REBALANCEABLE = frozenset(state for state, targets in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in targets)
"""The states in which a new rebalance can begin."""
