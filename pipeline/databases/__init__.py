"""The relational end of the pipeline: engines, one table of types, and what makes each row come once."""
