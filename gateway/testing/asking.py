"""One request to a broker over a connection of its own, for tests that observe a cluster from outside."""

import socket
from typing import Final

from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ProtocolError
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.schema.schema import Message

TIMEOUT_S: Final = 10.0
CLIENT_ID: Final = "odradek-testing"
"""Scripted faults do not apply to requests of this client."""


def ask(address: tuple[str, int], request: Message, version: int, timeout_s: float = TIMEOUT_S) -> Message | None:
    """The response; None if the connection is refused or breaks, or `timeout_s` pass without a response."""
    try:
        with socket.create_connection(address, timeout=timeout_s) as connection:
            connection.sendall(encode_request(request, version, 1, CLIENT_ID))
            size = int.from_bytes(_received(connection, LENGTH_BYTES), "big")
            key = ApiKey(request.__message__.api_key or 0)
            return decode_response(key, version, _received(connection, size))[1]
    except (OSError, EOFError, ProtocolError):
        return None


def _received(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        some = connection.recv(size - len(data))
        if not some:
            raise EOFError
        data += some
    return bytes(data)
