"""Whole clusters under faults, in one process and virtual time: the production's nodes, and clients that are judged.

plan: seed, length, brokers, kinds of faults
  run.py          the nodes, the load, the course of one run, the verdict
  access.py       clients that find leaders and coordinators
  faults.py       what breaks, in a mix that the seed chooses
  invariants.py   what must hold in memory and on disks after every step
  recorded.py     records the answers to clients, for the oracles of `loads/` and for the history checker
"""
