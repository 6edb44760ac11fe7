"""The archive job: topics become a table, exactly once by (topic, partition, offset).

`planning` decides which offsets a batch has, `batch` reads and writes them, `gaps` explains the offsets without a
record, `sink` and its two implementations commit, and `job` drives them.
"""
