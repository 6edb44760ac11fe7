"""Reads stdin for `produce`: yields the complete lines that are available, without waiting for more input."""

from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast

from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.output import descriptor_of
from odradek.gateway.cli.polling import await_input
from odradek.gateway.cli.signals import Stop

READ_BYTES = 65_536


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def read_lines(stream: BinaryIO, max_line_bytes: int, stop: Stop) -> Iterator[tuple[int, list[bytes]]]:
    """Yield lines without line ends, with the number of the first (from 1), until the stream ends or a signal comes.

    Raises `CliError` for a line longer than `max_line_bytes`, after yielding the lines before it.
    """
    number = 1
    for data in _whole_lines(stream, max_line_bytes, stop):
        lines = data.replace(b"\r\n", b"\n").split(b"\n")
        if max(map(len, lines)) > max_line_bytes:
            first = next(index for index, line in enumerate(lines) if len(line) > max_line_bytes)
            yield number, lines[:first]
            raise CliError(f"line {number + first} is longer than --max-record-bytes {max_line_bytes}")
        yield number, lines
        number += len(lines)


def _whole_lines(stream: BinaryIO, max_line_bytes: int, stop: Stop) -> Iterator[bytes]:
    """Yield the input in pieces that end at line ends; returns early in a line that is too long."""
    parts: list[bytes] = []
    size_bytes = 0
    while size_bytes <= max_line_bytes + 1 and (data := _next(stream, stop)):
        whole, end, rest = data.rpartition(b"\n")
        if end:
            yield b"".join((*parts, whole)).removesuffix(b"\r")  # `end` was the rest of this line's end
            parts, size_bytes = [], 0
        parts.append(rest)
        size_bytes += len(rest)
    if size_bytes and not stop.number:
        yield b"".join(parts).removesuffix(b"\r")


def _next(stream: BinaryIO, stop: Stop) -> bytes:
    """The available input; waits until there is some. Empty at the end of the stream and after a signal."""
    if stop.descriptor is not None and (descriptor := descriptor_of(stream)) is not None:
        await_input([descriptor, stop.descriptor])
    return b"" if stop.number else cast("_Source", stream).read1(READ_BYTES)
