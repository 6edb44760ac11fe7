"""SQL over topics, for `odradek sql`.

Theory of operation
    For a data directory and a SQLite store the statement runs in an in-memory SQLite database (`sqlite`), in which each
    topic is a virtual table: its batches are read beside the broker and decoded one at a time, as the statement needs
    rows. The statement's conditions on partition, offset and timestamp determine which batches are read at all.

    In PostgreSQL (`postgres`) the statement runs in the database itself, over the views of topics that have
    `odradek.sql.columns=true`.
"""
