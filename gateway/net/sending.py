"""Sends many parts at once: by `sendmsg`, or where a system has none, as Windows, by joining small parts."""

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from odradek.facilities import has

JOINED_BYTES: Final = 65_536
"""Parts are joined up to this size; a part that is larger is sent alone, without a copy."""

_Buffer = bytes | bytearray | memoryview


def send_joined(sock: socket.socket, parts: Sequence[_Buffer]) -> int:
    """Send what the socket accepts at once, in order; returns the number of bytes, as `socket.sendmsg` does.

    A blocking socket accepts all. Raises BlockingIOError if a socket that does not block accepts nothing, OSError.
    """
    sent = 0
    for piece in _pieces(parts):
        try:
            count = sock.send(piece)
        except BlockingIOError:
            if not sent:
                raise
            return sent
        sent += count
        if count < len(piece):
            return sent
    return sent


def _pieces(parts: Sequence[_Buffer]) -> Iterator[_Buffer]:
    """The same bytes in fewer parts, of which none is empty."""
    small: list[_Buffer] = []
    size = 0
    for part in parts:
        if size + len(part) > JOINED_BYTES and small:
            yield b"".join(small)
            small, size = [], 0
        if len(part) > JOINED_BYTES:
            yield part
        elif len(part):
            small.append(part)
            size += len(part)
    if small:
        yield b"".join(small)


send_many: Final[Callable[[socket.socket, Sequence[_Buffer]], int]] = (
    socket.socket.sendmsg if sys.platform != "win32" and has("sendmsg") else send_joined
)
"""Send what the socket accepts at once of at most 1,024 parts, as `send_joined` does. Chosen once, and called without a
function of ours in between.
"""
