"""The restore job: copies a table to a topic.

`source` opens the table, `plan` decides which rows are written to which partition, `target` checks the topic's contents
and refuses a topic that cannot become equal to the table, `tasks` runs on Spark's executors: `encoding` makes record
batches, `exact` and `renumbered` write them. The only progress of an earlier run is the topic itself; docs/pipeline.md
("Restore") has the reasons.
"""
