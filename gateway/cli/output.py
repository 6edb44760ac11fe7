"""Output of commands: plain columns, JSON, notes on stderr. Colours and progress only on a terminal.

What people read has escapes for control characters (`visible`); JSON is exact.
"""

import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, Protocol

import click

from odradek.gateway.cli.visible import visible


def heading(text: str) -> str:
    """`text`, in bold if stdout is a terminal that shows colours."""
    text = visible(text)
    return click.style(text, bold=True) if wants_colour(sys.stdout) else text


def say(text: str) -> None:
    """Print one line on stdout."""
    click.echo(visible(text))


def wants_colour(stream: IO[str]) -> bool:
    """True if output to `stream` is coloured: it is a terminal, and neither NO_COLOR is set nor TERM=dumb."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def descriptor_of(stream: BinaryIO) -> int | None:
    """The file descriptor of a stream; None for one in memory."""
    try:
        return stream.fileno()
    except OSError:
        return None


def note(text: str) -> None:
    """Print one line on stderr, so that it does not mix with output that is piped."""
    click.echo(visible(text), err=True)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def emit_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, default=str))


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print aligned columns, numbers aligned on the right."""
    headers = [visible(each) for each in headers]
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in [headers, *cells]) for column in range(len(headers))]
    numeric = [
        bool(rows) and all(isinstance(row[column], int) or row[column] is None for row in rows)
        for column in range(len(headers))
    ]
    click.echo(heading(_line(headers, widths, numeric)))
    for row in cells:
        click.echo(_line(row, widths, numeric))


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(row, widths, numeric, strict=True)
    )
    return "  ".join(padded).rstrip()


def _text(cell: object) -> str:
    return "-" if cell is None or cell == "" else visible(str(cell))


class Meter(Protocol):
    """Receives the progress of long work."""

    def advance(self, records: int, size_bytes: int) -> None:
        """Add what was done since the last call."""
        ...


class _SilentMeter:
    def advance(self, records: int, size_bytes: int) -> None:
        pass


@contextmanager
def meter(label: str, total: int | None, *, of_bytes: bool = False, shown: bool = True) -> Generator[Meter]:
    """A progress line with count and rate on stderr, if stderr is a terminal and `shown` is true.

    `total` counts records, or bytes with `of_bytes`; None if it is not known.
    """
    if not shown or not sys.stderr.isatty():
        yield _SilentMeter()
        return
    from odradek.gateway.cli.progress import rich_meter

    with rich_meter(label, total, of_bytes=of_bytes) as shown_meter:
        yield shown_meter
