"""Log compaction as pure logic: what to clean, up to where, and which batches are left.

A cleaning goes over a log twice. First the dirty part is read and the newest offset of each key is noted (`OffsetMap`,
of bounded size: when it is full, the cleaning ends there). Then everything below that end is read from the log's
beginning, segment by segment, and only what is newest for its key is kept (`BatchFilter`). Offsets never change.
"""
