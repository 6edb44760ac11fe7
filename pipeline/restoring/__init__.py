"""A table becomes a topic: the job, and its parts.

`source` opens the table, `plan` says what of it goes where, `target` looks at what the topic has and refuses what would
not become the same, `tasks` runs on Spark's executors: `encoding` makes record batches, `exact` and `renumbered` write
them. The topic itself says how far an earlier run came; nothing else is kept. docs/pipeline.md ("Restore") tells why.
"""
