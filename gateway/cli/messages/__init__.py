"""Messages that kafka-python does not have: their definitions in the files here, in the form that it reads."""

import importlib
from functools import cache
from typing import Any


@cache
def message(name: str) -> Any:  # noqa: ANN401 - kafka-python's messages have no types
    """The class of a message, made from the file of its name."""
    base = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return type(base)(name, (base,), {}, load_json=__name__)


def request(name: str, **fields: object) -> Any:  # noqa: ANN401 - as above
    """A request such as `UnregisterBroker`; its response is known from then on."""
    message(f"{name}Response")
    return message(f"{name}Request")(**fields)
