"""Reports the contents of a topic, and whether they are complete: `odradek pipeline audit`.

A topic is read as its brokers store it, batch by batch and without isolation, so that markers, aborted transactions and
effects of compaction are included (`scan`). `facts` sums them up and explains each offset without a record. `records`
reads the same records from an archive, a data directory or another cluster, and `compare` compares both. Memory is
limited: one fetch of each source, and samples of fixed size. Does not require Spark.
"""

from odradek.pipeline.auditing.job import audit

__all__ = ["audit"]
