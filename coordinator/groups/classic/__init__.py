"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and the rebalances between them."""
