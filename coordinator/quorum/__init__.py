"""The metadata quorum: Kafka's Raft (KIP-595, KIP-996) as a pure state machine.

One to five *voters* elect the leader of the metadata log; *observers* follow it without a vote. The inputs of the state
machine (`quorum.py`) are requests, responses, the time and the extent of the log. Its output is `Ready`: what the
caller must make durable, the role of the log, the requests to send. It does no I/O. Followers fetch records, as in any
partition, and the log itself (a `QuorumLog`) belongs to the caller.

The invariants of a quorum, and where each is kept:

- *One leader per epoch.* A voter votes once in an epoch, and its vote is durable before it is sent (`Ready.election`).
  A node that has led an epoch and restarts does not lead that epoch again (KAFKA-10527).
- *Pre-vote.* A voter without contact to a leader becomes prospective. It raises the epoch only after a majority has
  granted its pre-vote (`ballot.py`), so a node behind a network partition does not depose a working leader.
- *The leader has all committed records.* A voter grants its vote only to a node whose log is not behind its own
  (`ballot.py`).
- *The fetch offset is the acknowledgement.* A follower sends no Fetch before its whole log is durable. The leader
  counts the offset only if the epoch of the record before it agrees with its own log. Otherwise it records nothing
  (KAFKA-13141), its response contains where the logs diverge, and the follower truncates (`quorum.py`).
- *Committed* is what a majority of the voters has durably, once that includes a record of the leader's own epoch: the
  first such record is LeaderChange (`leadership.py`; Raft, figure 8).
- *A leader without a majority resigns* (check-quorum), and so does a leader that stops: it sends EndQuorumEpoch, and
  the voter with the most records becomes a candidate first.
- *Responses are correlated.* At most one request is in flight to each node. Of the response to any other request, only
  the epoch and leader are used (`exchanges.py`).

A quorum of one uses the same state machine. Its only voter stores no vote, since no other node depends on it: the epoch
is in the records that it writes.

The log may be truncated below a snapshot. A follower whose fetch offset is no longer in the log fetches the snapshot
and continues from its end (`snapshots.py`, KIP-630).
"""
