"""What is in a topic, and whether all of it is there: `odradek pipeline audit`.

A topic is read as its brokers store it, batch by batch and without isolation, so that markers, aborted transactions and
what compaction has left are seen (`scan`). `facts` adds it up and explains each offset without a record. `records`
reads the same records out of an archive, a data directory or another cluster, and `compare` holds both against each
other. Memory is bounded: one fetch of each side, and samples of fixed size. Spark is not needed.
"""

from odradek.pipeline.auditing.job import audit

__all__ = ["audit"]
