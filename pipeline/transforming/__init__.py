"""The transform job: writes a filtered or changed copy of a topic. Each batch is one transaction of the new records and
the source's offsets after the batch.
"""
