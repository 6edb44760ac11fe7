"""The restore job: copies a table to a topic.

`source` opens the table, `plan` decides which rows are written to which partition, `target` checks the topic's contents
and refuses a topic that cannot become equal to the table, `tasks` runs on Spark's executors: `exact` and `renumbered`
write record batches, which `odradek.pipeline.writing` encodes. No progress is stored: a run finds that of an earlier
run in the topic itself; docs/pipeline.md ("Restore") has the reasons.
"""
