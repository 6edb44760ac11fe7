"""Whole clusters under faults, in one process and virtual time: production nodes, and clients that check their answers.

plan: seed, length, brokers, kinds of faults
  run.py              the nodes, the load, the steps of one run, the verdict
  access.py           clients that find leaders and coordinators
  faults.py           the faults, in a mix that the seed chooses
  trust.py            the brokers that may end uncleanly or lose their disks
  voters.py           requests that change the voters of the metadata quorum
  replica_changes.py  requests for reassignments and elections
  assignments.py      checks the assignments of partitions in the metadata log
  memberships.py      checks the members of a consumer group in the group's log
  invariants.py       the invariants in memory and on disks, checked after every step
  recorded.py         records the answers to clients, for the oracles of `loads/` and for the history checker
  side_by_side.py     runs many seeds in several processes
  shortest.py         shrinks a failing run
"""
