"""Messages that kafka-python does not have: the JSON files here define them in its format."""

import importlib
from functools import cache
from typing import Any


@cache
def message(name: str) -> Any:  # noqa: ANN401 - kafka-python's messages have no types
    """The class of a message, made from the JSON file with its name."""
    base = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return type(base)(name, (base,), {}, load_json=__name__)


def request(name: str, **fields: object) -> Any:  # noqa: ANN401 - as above
    """A request such as `UnregisterBroker`; also registers the class of its response."""
    message(f"{name}Response")
    return message(f"{name}Request")(**fields)
