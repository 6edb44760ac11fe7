"""The views on the rows of topics and, in PostgreSQL, functions for bytes in the same schema.

In PostgreSQL they are in a schema of their own, `topics`, or `SCHEMA_topics` for a store in another schema than
`public`: so topics' names cannot collide with those of other tables.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, text

from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.schema import SHORT_KEYS

_NAME_BYTES: Final = 63
"""PostgreSQL's limit on names."""

# The unary `+` prevents the planner from choosing the index by the two bounds, which nearly every row satisfies.
_PART: Final = """
SELECT l.partition AS "partition", r.record_offset AS "offset", r.timestamp_ms AS "timestamp", r.record_key AS "key",
  r.record_value AS "value", {headers} AS "headers"
FROM odradek_logs l JOIN odradek_records r ON r.log_id = l.id
WHERE l.kind = 0 AND l.topic = '{topic}' AND +r.record_offset >= l.columns_start
  AND +r.record_offset >= l.log_start_offset AND {which}
  AND (r.producer_id IS NULL OR (SELECT m.is_commit FROM odradek_markers m WHERE m.log_id = r.log_id
    AND m.producer_id = r.producer_id AND m.marker_offset > r.record_offset ORDER BY m.marker_offset LIMIT 1))
"""

_FUNCTIONS: Final = {
    "as_text": """(value bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN RETURN convert_from(value, 'UTF8'); EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character
  THEN RETURN NULL; END $$""",
    "as_json": """(value bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN RETURN convert_from(value, 'UTF8')::json; EXCEPTION WHEN invalid_text_representation
  OR character_not_in_repertoire OR untranslatable_character OR untranslatable_character THEN RETURN NULL; END $$""",
    "as_time": """(timestamp_ms bigint) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN RETURN timestamp 'epoch' + timestamp_ms * interval '1 millisecond'; EXCEPTION WHEN datetime_field_overflow
  OR interval_field_overflow THEN RETURN NULL; END $$""",
}


def make_view(database: Database, topic: str) -> None:
    """Create the view of a topic, if it does not exist. Raises StoreError."""
    with database.reading(f"looking for the view of {topic}") as connection:
        if _exists(connection, database, topic):
            return
    with database.writing(f"making the view of {topic}") as connection:
        if _exists(connection, database, topic):
            return  # a concurrent commit to another partition of the topic has created it
        for statement in _statements(connection, database, topic):
            connection.exec_driver_sql(statement)


def view_schema(store_schema: str) -> str:
    """Return the schema of a store's views in PostgreSQL."""
    return "topics" if store_schema == "public" else f"{store_schema}_topics"


def view_name(topic: str) -> str:
    """Return the name of a topic's view in PostgreSQL: the topic's, shortened if it is too long."""
    if len(topic) <= _NAME_BYTES:
        return topic
    return f"{topic[: _NAME_BYTES - 9]}_{sha256(topic.encode()).hexdigest()[:8]}"


def _exists(connection: Connection, database: Database, topic: str) -> bool:
    if database.is_sqlite:
        found = connection.execute(
            text("SELECT 1 FROM sqlite_schema WHERE lower(name) = lower(:name)"), {"name": topic}
        )
    else:
        found = connection.execute(
            text("SELECT 1 FROM pg_views WHERE schemaname = :schema AND viewname = :name"),
            {"schema": view_schema(_schema(connection)), "name": view_name(topic)},
        )
    return found.first() is not None


def _statements(connection: Connection, database: Database, topic: str) -> Iterator[str]:
    if database.is_sqlite:
        yield f'CREATE VIEW IF NOT EXISTS "{topic}" AS {_select(topic, "r.headers")}'
        return
    schema = _quoted(view_schema(_schema(connection)))
    if connection.execute(text("SELECT to_regnamespace(:name)"), {"name": schema}).scalar() is None:
        yield f"CREATE SCHEMA {schema}"
        for name, definition in _FUNCTIONS.items():
            yield f"CREATE FUNCTION {schema}.{name} {definition}"
    yield f"CREATE VIEW {schema}.{_quoted(view_name(topic))} AS {_select(topic, 'r.headers::json')}"


def _select(topic: str, headers: str) -> str:
    """Return a union of rows with short and with long keys, since only short keys are indexed. Topic names need no
    escaping.
    """
    short = _PART.format(topic=topic, headers=headers, which=SHORT_KEYS.replace("has_", "r.has_"))
    return short + "UNION ALL" + _PART.format(topic=topic, headers=headers, which="r.has_long_key")


def _schema(connection: Connection) -> str:
    return connection.execute(text("SELECT current_schema()")).scalar_one()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
