"""The archive job: copies topics to a table, exactly once by (topic, partition, offset).

`planning` decides the offsets of a batch, `batch` reads and writes them, `gaps` explains the offsets without a record,
`sink` and its two implementations commit, and `job` runs them.
"""
