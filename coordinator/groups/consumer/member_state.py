"""The states of a member of a consumer group.

Theory of operation
-------------------
Three numbers rule. The *group epoch* grows whenever what there is to assign has changed: members, subscriptions, or the
topics subscribed to. The *target epoch* is the group epoch that the last target assignment was computed for. A *member
epoch* is the target that this member has reached. A member moves with its own heartbeats and waits only for those whose
partitions it is to get:

    assigned  = what it has, as far as the target grants it
    revoking  = what it has and must give up; named in no heartbeat any more once it has
    to come   = what the target grants and it has not; taken as soon as nobody else holds it

    from        to          because
    Stable      Unrevoked   the target takes partitions away; the epoch stays until they are given up
    Stable      Unreleased  it has reached the target's epoch, but others still hold some of its partitions
    Stable      Stable      it has reached the target's epoch with all of its partitions
    Unrevoked   any         its heartbeat names none of the partitions to give up any more
    Unreleased  any         another heartbeat: look again

A partition is never assigned while anyone holds it, be it as assigned or as revoking: so it has one owner at most.
Partitions remember the epoch in which they were assigned: a commit in the name of an older one is refused (KIP-1251).

The group's own state follows from these: Empty without members, Assigning while the target is older than the group
epoch, Reconciling until every member is Stable at the target epoch, then Stable.
"""

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """Where a member is on its way to the target; the value is what records say."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(Enum):
    """The state of a whole group; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


JOIN_EPOCH = 0
"""The member epoch of a heartbeat that joins, or joins again."""
LEAVE_EPOCH = -1
"""The member epoch of a heartbeat that leaves."""
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that leaves and means to come back."""
