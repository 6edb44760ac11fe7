"""One partition on this broker, as leader or follower.

`partition.py` joins the pure log to its store, `leading.py` and `following.py` add the operations of the two roles. The
role comes from the metadata: a new leader epoch makes a new role over the same state.
"""

from odradek.gateway.replication.assignment import Assignment
from odradek.gateway.replication.following import FollowingLog
from odradek.gateway.replication.leading import LeadingLog
from odradek.gateway.replication.partition import LogResources, ReplicaState
from odradek.partitions.follower import Follower
from odradek.partitions.leader import Leader

__all__ = ["LogResources", "Replica", "ReplicaState"]


class Replica(LeadingLog, FollowingLog):
    """A partition's log, its store and the waits for it. Watchers are woken whenever the high watermark moves."""

    def assign(self, assigned: Assignment) -> None:
        """Lead or follow in another epoch; in the same epoch, update a leader's ISR.

        Waits for a commit fail with NOT_LEADER_OR_FOLLOWER if this broker does not lead in the new epoch, since it then
        does not determine what is committed.
        """
        if assigned.leader_epoch == self._assigned.leader_epoch:
            self._assign_in_epoch(assigned)
            return
        self._assigned = assigned
        if self.state is not ReplicaState.OPEN:  # the role is created when the log is opened
            if not assigned.leads:
                self._fail_waits(self._not_leader())
            return
        assert self._log is not None
        self._role, self._epoch_write = self._role_over(self._log)
        if isinstance(self._role, Follower):
            self._fail_waits(self._not_leader())
        self.notify()
        self._committed_waits.reach(self._log.high_watermark)  # it may lead alone now
        self._note_deleted()

    def _assign_in_epoch(self, assigned: Assignment) -> None:
        if assigned.leads is not self._assigned.leads:
            return  # an epoch has one leader
        self._assigned = assigned
        if isinstance(self._role, Leader):  # also while the log has failed: the role is kept when the log is reopened
            moved = self._role.assign(assigned.membership)
            self._committed(moved=moved and self.state is ReplicaState.OPEN)
            self._note_deleted()
