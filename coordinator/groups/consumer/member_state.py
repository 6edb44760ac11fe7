"""The states of a member of a consumer group.

Theory of operation
-------------------
There are three epochs. The *group epoch* grows whenever the input of the assignment changes: members, subscriptions, or
the topics subscribed to. The *target epoch* is the group epoch for which the last target assignment was computed. A
*member epoch* is the target epoch that this member has reached. A member changes its state with its own heartbeats, and
waits only for the members whose partitions are assigned to it next:

    assigned  = partitions that it holds and that the target assigns to it
    revoking  = partitions that it holds and must release; released when a heartbeat lists none of them
    missing   = partitions that the target assigns to it and it does not hold; assigned when no other member holds them

    from        to          because
    Stable      Unrevoked   the target revokes partitions; the epoch stays until they are released
    Stable      Unreleased  it has reached the target's epoch, but other members hold some of its partitions
    Stable      Stable      it has reached the target's epoch with all of its partitions
    Unrevoked   any         its heartbeat lists none of the partitions to release
    Unreleased  any         with each heartbeat the owners are checked again

A partition is never assigned while another member holds it, as assigned or as revoking, so it has one owner at most.
The epoch of each assignment is stored: a commit with an older epoch is refused (KIP-1251).

The group's own state follows from these: Empty without members, Assigning while the target is older than the group
epoch, Reconciling until every member is Stable at the target epoch, then Stable.
"""

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """A member's progress towards the target; the value is that of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(Enum):
    """The state of a whole group; the value is its name in Kafka's tools."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


JOIN_EPOCH = 0
"""The member epoch of a heartbeat that joins, or joins again."""
LEAVE_EPOCH = -1
"""The member epoch of a heartbeat that leaves."""
STATIC_LEAVE_EPOCH = -2
"""The member epoch of a heartbeat of a static member that leaves and will join again."""
