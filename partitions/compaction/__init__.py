"""Log compaction as pure logic: which part of a log to clean, and which batches and records remain.

A cleaning reads the log twice. The first pass reads the dirty part and stores the newest offset of each key in an
`OffsetMap`. The map has a bounded size; the cleaning ends where the map is full. The second pass reads everything below
that end from the log's beginning, segment by segment, and keeps only the newest record of each key (`BatchFilter`).
Offsets never change.
"""
