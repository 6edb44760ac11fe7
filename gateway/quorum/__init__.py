"""The metadata quorum on this node: the pure machine of `coordinator/quorum` joined to log, disk and network.

    requests of other nodes ─► handlers ─► ┌────────────┐ ─► election state ─► store, durable before all that follows
    answers, errors ─────────────────────► │ driver.py  │ ─► cut, role ──────► metadata_log.py, the log's replica
    time ────────────────────────────────► │  machine   │ ─► requests ───────► peers, one connection for fetches, one
    more of the log is durable ──────────► └────────────┘                      for elections
                                                 │ high watermark
                                                 ▼
                                       committed records, on every node

- Events are taken one after the other. What an event leads to is done, in the order that `Ready` gives, before the next
  one is taken, and before its reply leaves. That is how a vote is durable before it is told. While the disk refuses the
  election state the node takes part in nothing.
- The high watermark of the metadata log is the machine's, whatever role the replica has: a majority of the voters, not
  an ISR (`QuorumLeader`).
- The LeaderChange record is the first of an epoch. A leader of several voters appends it at once; the sole voter with
  its first record, since starting must need no write.
- Every node keeps snapshots of what is committed (`snapshots.py`), behind which the log is trimmed. A follower without
  what was trimmed downloads one (`staging.py`), and begins its log anew behind it once that is durable.
- A leader whose log fails resigns, unless it is the sole voter. A follower opens its log again and goes on.
- *Active* is a leader whose LeaderChange record is committed: all before it is committed, too, and it may decide.
"""

from odradek.gateway.quorum.driver import QuorumDriver, QuorumSettings
from odradek.gateway.quorum.metadata_log import MetadataReplica

__all__ = ["MetadataReplica", "QuorumDriver", "QuorumSettings"]
