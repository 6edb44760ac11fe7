"""Kafka's error names by number, from kafka-python: independent of Odradek's own table."""

from __future__ import annotations

import inspect

from kafka import errors


def _table() -> dict[int, str]:
    found: dict[int, str] = {}
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        number = getattr(kind, "errno", None)
        if isinstance(number, int) and issubclass(kind, errors.BrokerResponseError):
            found[number] = getattr(kind, "message", kind.__name__)
    return {**found, 0: "NONE", -1: "UNKNOWN_SERVER_ERROR"}


_NAMES = _table()


def error_name(number: int) -> str:
    """``NONE``, ``UNKNOWN_TOPIC_OR_PARTITION``, ...; an unknown number as itself."""
    return _NAMES.get(number, f"error {number}")
