"""A filtered or changed copy of a topic: the job, what is done to the records, and what Spark's executors run.

Each batch is one transaction: the new records, and the source's offsets up to which they go, committed together.
"""
