"""The lines of `odradek produce`, for every way in which the input may arrive in pieces."""

import itertools

import pytest

from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.input_lines import read_lines
from odradek.gateway.cli.signals import Stop


class Pieces:
    """A stream that returns one piece per read."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read1(self, size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def split_everywhere(data: bytes) -> list[list[bytes]]:
    """All ways to divide `data` into at most three pieces."""
    cuts = itertools.combinations(range(1, len(data)), 2)
    return [[data], *[[data[:one], data[one:other], data[other:]] for one, other in cuts]]


def read(pieces: list[bytes], limit: int = 100) -> list[bytes]:
    found: list[bytes] = []
    for number, lines in read_lines(Pieces(*pieces), limit, Stop()):
        assert number == len(found) + 1
        found += lines
    return found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\n\r\nbc", [b"a", b"", b"bc"]),
        (b"a\rb\r\nc\r", [b"a\rb", b"c"]),
        (b"", []),
    ],
)
def test_lines_do_not_depend_on_the_pieces_that_arrive(data, expected):
    assert {tuple(read(pieces)) for pieces in split_everywhere(data)} == {tuple(expected)}


def test_a_line_that_is_too_long_is_refused_after_the_lines_before_it():
    found = []
    with pytest.raises(CliError, match="line 2 is longer than --max-record-bytes 3"):
        found.extend(lines for _, lines in read_lines(Pieces(b"abc\r\nabcd\r\n"), 3, Stop()))
    assert found == [[b"abc"]]
