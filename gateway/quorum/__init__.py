"""The metadata quorum on this node: connects the state machine of `coordinator/quorum` to log, disk and network.

    requests of other nodes ─► handlers ─► ┌────────────┐ ─► election state ─► store, durable before all that follows
    responses, errors ───────────────────► │ driver.py  │ ─► cut, role ──────► metadata_log.py, the log's replica
    time ────────────────────────────────► │  machine   │ ─► requests ───────► peers, one connection for fetches, one
    more of the log is durable ──────────► └────────────┘                      for elections
                                                 │ high watermark
                                                 ▼
                                       committed records, on every node

- Events are handled one at a time. The effects of an event are carried out, in the order that `Ready` gives, before the
  next event is handled, and before its reply is sent. So a vote is durable before it is sent. While the election state
  cannot be written, the node neither sends nor answers.
- The high watermark of the metadata log is that of the state machine in every role: it is determined by a majority of
  the voters, not by an ISR (`QuorumLeader`).
- The LeaderChange record is the first of an epoch. A leader of several voters appends it at once. The sole voter
  appends it with its first record, so that a start needs no write.
- Every node keeps snapshots of the committed state (`snapshots.py`), below which the log is truncated. A follower that
  lacks truncated records downloads a snapshot (`staging.py`), and restarts its log from it once it is durable.
- A leader whose log fails resigns, unless it is the sole voter. A follower reopens its log and continues.
- A leader is *active* once its LeaderChange record is committed: everything before it is committed, too, and it may
  decide. The sole voter is active as soon as it leads.
"""

from odradek.gateway.quorum.driver import QuorumDriver, QuorumSettings
from odradek.gateway.quorum.metadata_log import MetadataReplica

__all__ = ["MetadataReplica", "QuorumDriver", "QuorumSettings"]
