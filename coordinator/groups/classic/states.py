"""The states of a classic group.

Theory of operation
-------------------
A group agrees on who does what in *rebalances*. A rebalance has a join phase, in which every member says which
protocols it can speak, and a sync phase, in which one member, the leader, hands in what everybody is assigned. Members
send JoinGroup and SyncGroup and both replies are held back: JoinGroup's until the join phase ends, SyncGroup's until
the leader's has come. What comes out is a *generation*: a number, the members, the protocol and the assignments.

Only a finished generation is durable. The leader's SyncGroup writes one record with all of it, and an empty generation
is written when the last member has gone. Everything before that, who waits, who has joined, the number of the
generation in the making, is soft: a coordinator that restarts goes on from the last generation written, and members
that were further notice by UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION and join again. So every change *into* Stable and
Empty, and Dead, is made by replay of a record, and every other one by an operation:

    from                to                   by         because
    (none)              Empty                operation  first JoinGroup of an unknown group; its record follows
    (none)              Empty                replay     first offset committed by a consumer that manages no membership
    Empty               PreparingRebalance   operation  a member joins; the initial rebalance waits for more to come
    Stable              PreparingRebalance   operation  a member joins anew, leaves, is expired, or the leader rejoins
    CompletingRebalance PreparingRebalance   operation  the same, or some never synced; waiting SyncGroups are refused
    PreparingRebalance  CompletingRebalance  operation  all have joined, or the rebalance timeout has passed
    CompletingRebalance Stable               replay     the record that the leader's SyncGroup wrote
    PreparingRebalance  Empty                replay     the record of an empty generation: nobody is left
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
"""From each state, where a group can go; anything else is a bug of ours."""

REBALANCEABLE = frozenset(state for state, targets in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in targets)
"""The states in which a new rebalance can begin."""
