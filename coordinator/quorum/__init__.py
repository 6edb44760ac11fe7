"""The metadata quorum: Kafka's Raft (KIP-595, KIP-996) as a pure machine.

One to five *voters* elect the leader of the metadata log; *observers* follow it without a vote. The machine
(`quorum.py`) is given requests, answers, the time and the log's extent, and says what to do in `Ready`: what to make
durable, in which role the log goes on, what to send. It moves no bytes. Records travel as in any partition, pulled by
Fetch, and the log itself (a `QuorumLog`) belongs to the caller.

What holds a quorum together, and where it is decided:

- *One leader an epoch.* A voter votes once in an epoch, and its vote is durable before it is sent (`Ready.election`).
  A node that has led an epoch and restarts does not lead that epoch again (KAFKA-10527).
- *Pre-vote.* Who has not heard from a leader becomes prospective, and raises the epoch only after a majority has said
  that it would vote for it (`ballot.py`). So a node that was cut off does not depose a leader that works.
- *The leader has all that is committed.* A vote goes only to a log that is not behind the voter's (`ballot.py`).
- *The fetch offset is the acknowledgement.* A follower sends no Fetch before all that it has is durable. The leader
  counts the offset only if the epoch of the record before it agrees with its own log; otherwise its answer says where
  the logs diverge, it records nothing (KAFKA-13141), and the follower cuts (`quorum.py`).
- *Committed* is what a majority of the voters has durably, once that includes a record of the leader's own epoch: the
  LeaderChange record that it begins with (`leadership.py`; Raft, figure 8).
- *A leader without a majority resigns* (check-quorum), and so does one that stops: it tells the others, and the one
  with the most records stands first (EndQuorumEpoch).
- *Answers are correlated.* One request is under way to a node at a time, and an answer to any other is dropped but for
  the epoch that it names (`exchanges.py`).

A quorum of one is the same machine. Its only voter needs no durable vote, for there is no other to be told of it: what
it writes says which epoch it was in.

The log may be trimmed behind a snapshot. A follower that does not find its place in what is left fetches the snapshot
and begins anew behind it (`snapshots.py`, KIP-630).
"""
