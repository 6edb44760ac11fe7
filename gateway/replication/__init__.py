"""Replicas of partitions on this broker: the pure logs of `odradek/partitions` joined to store, leaders and followers.

    metadata image ─► replicas.py ─► role and leader epoch of each replica ─► fetchers.py: leader to fetch from

    Produce ─► leading.py ─► commit.py ─► store ─► durable end ─Fetch─► fetcher.py ─► following.py ─► commit.py ─► store
                                                                                                                     │
    acks=all, consumers ◄── high watermark ◄── leading.py ◄──────────── offset of the follower's next Fetch ◄────────┘
                                                   │
                                                   └─► ISR proposals ─► alter_partition.py ─► active controller

- The image assigns the roles; for the metadata log, the quorum does. A new leader epoch makes a new role over the same
  log, without the earlier role's state of the followers. Logs are opened at first use.
- Every write and every truncation goes through the log's commit queue (`commit.py`): one commit at a time for each log.
  A failed commit voids the writes after it; the log is reopened from disk, with growing pauses (`recovery.py`).
- A leader serves followers the records that are durable here. A follower sends the next Fetch when all fetched records
  are durable, so the offset of a Fetch is an acknowledgement. The high watermark is the smallest end of all replicas
  that may be in sync.
- A follower truncates, a leader never does: to the epoch end in the leader's response, or to the leader's end. The log
  is `rewriting` until the store has the truncation, with the producers' rows that belong to it, in one transaction.
- A leader proposes changes of the ISR, in one AlterPartition request at a time for all partitions, repeated until there
  is a response. Changes by the controller itself (fenced brokers, reassignments) come with the image.
- A log that is not in the image is set aside (`strays.py`), or deleted if the metadata log has its topic's deletion.
  The log of a partition that has moved to other brokers is deleted.
- *Durable* is what the store has committed. It survives a crash of the process, and also a power cut unless both
  `flush.messages` and `flush.ms` are unlimited (`policy.is_synced`).
- `manager.py` starts these parts. Leaders check for lagging followers at intervals and when brokers change.

docs/internals/replication.md has the reasons.
"""
