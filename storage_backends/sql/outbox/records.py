"""Converts rows of the outbox to records."""

from base64 import b64decode
from collections.abc import Iterable
from typing import Any, cast

from odradek.partitions.model import OutboxEntry
from odradek.storage_backends.outbox import OutboxRecord

Headers = tuple[tuple[str, bytes | None], ...]


def record_of(row: Any, turn: int) -> OutboxRecord:  # noqa: ANN401 - a row
    """Return the record of a row of `odradek_outbox`."""
    return OutboxRecord(
        OutboxEntry(row.id, turn),
        row.topic,
        row.topic_id,
        row.partition,
        row.timestamp_ms,
        None if row.key is None else bytes(row.key),
        None if row.value is None else bytes(row.value),
        headers_of(row.headers),
    )


def headers_of(headers: Any) -> Headers:  # noqa: ANN401 - JSON
    """Return the headers that the SQL function `headers_of` returns for the same JSON, which `append` has validated."""
    pairs: Iterable[tuple[str, Any]] = headers or ()
    if isinstance(headers, dict):
        pairs = cast("dict[str, Any]", headers).items()
    return tuple([(name, _content(value)) for name, value in pairs])


def _content(value: Any) -> bytes | None:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return b64decode(cast("dict[str, str]", value)["base64"])
    return None if value is None else value.encode()
