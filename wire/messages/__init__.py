"""Requests and responses, one module per API, imported at first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from odradek.wire.api_keys import ApiKey
from odradek.wire.schema.schema import Message


@cache
def request_class(key: ApiKey) -> type[Message]:
    """Return the request class of an API, such as ``ProduceRequest``."""
    return _find(key, "Request")


@cache
def response_class(key: ApiKey) -> type[Message]:
    """Return the response class of an API, such as ``ProduceResponse``."""
    return _find(key, "Response")


def _find(key: ApiKey, suffix: str) -> type[Message]:
    module = import_module(f"odradek.wire.messages.{key.name.lower()}")
    return getattr(module, key.name.title().replace("_", "") + suffix)
