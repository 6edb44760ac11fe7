"""Whole clusters under faults, in one process and virtual time: production nodes, and clients that check their answers.

plan: seed, length, brokers, kinds of faults
  run.py          the nodes, the load, the steps of one run, the verdict
  access.py       clients that find leaders and coordinators
  faults.py       the faults, in a mix that the seed chooses
  invariants.py   the invariants in memory and on disks, checked after every step
  recorded.py     records the answers to clients, for the oracles of `loads/` and for the history checker
"""
