"""`odradek produce`: send the lines of stdin to a topic of any Kafka, with bounded memory."""

import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import BinaryIO

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import Target
from odradek.gateway.cli.clients.interface import Headers, Outgoing, OutgoingTuple, Sender, SendSettings
from odradek.gateway.cli.clients.settings import client_option, open_sender
from odradek.gateway.cli.errors import CliError, ended_by
from odradek.gateway.cli.formats import parse_json_record
from odradek.gateway.cli.input_lines import read_lines
from odradek.gateway.cli.options import INT32_MAX, Text, TopicName, codec_option, connection_options
from odradek.gateway.cli.output import Meter, counted, meter, note
from odradek.gateway.cli.signals import stop_noticed

LARGEST_RECORD_BYTES = 512 * 1024 * 1024

EPILOG = """\
\b
Examples:
  echo hello | odradek produce greetings
  odradek produce users --key-separator : --null-value '' < users.txt
  odradek produce logs --codec zstd --header host=web1 --acks 1 < access.log
  odradek consume a --format json | odradek produce b --input json
"""


@dataclass(frozen=True, slots=True)
class Style:
    """How a line of input becomes a record."""

    as_json: bool = False
    key: bytes | None = None
    key_separator: bytes | None = None
    null_value: bytes | None = None
    headers: Headers = ()


@click.command("produce", epilog=EPILOG)
@click.argument("topic", type=TopicName())
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", type=Text(), help="Each line is a key, this text, and a value.")
@click.option("--null-value", metavar="TEXT", help="Send a null value, a tombstone, for values that equal this text.")
@click.option(
    "-H", "--header", "headers", type=Assignment(), multiple=True, help="A header of every record. Repeatable."
)
@click.option(
    "--input",
    "style",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="The format of stdin; `json` is what `consume --format json` prints.",
)
@click.option("-p", "--partition", type=click.IntRange(0, INT32_MAX), help="Send all to this partition.")
@codec_option
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Which replicas must have a record before it is acknowledged.",
)
@click.option(
    "--max-record-bytes",
    type=click.IntRange(1, LARGEST_RECORD_BYTES),
    default=1_048_576,
    show_default=True,
    help="Refuse longer lines.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
@client_option
@connection_options
def produce(
    target: Target,
    *,
    topic: str,
    key: str | None,
    key_separator: str | None,
    null_value: str | None,
    headers: Sequence[tuple[str, str]],
    style: str,
    partition: int | None,
    codec: str,
    acks: str,
    max_record_bytes: int,
    quiet: bool,
    client: str,
) -> None:
    """Send each line of stdin as one record. The topic is created where the broker allows that."""
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other")
    stream = sys.stdin.buffer
    if stream.isatty() and not quiet:
        note("one record a line; Ctrl-D ends")
    reading = Style(
        style == "json",
        _encoded(key),
        _encoded(key_separator),
        _encoded(null_value),
        [(name, os.fsencode(text)) for name, text in headers],
    )
    settings = SendSettings(topic, partition, codec, acks, max_record_bytes)
    total, shown = _size_bytes(stream), not (quiet or stream.isatty())
    with (
        open_sender(client, target, settings) as sender,
        meter(f"to {topic}", total, of_bytes=True, shown=shown) as progress,
        stop_noticed() as stop,
    ):
        sending = Sending(sender, progress)
        sending.send_all(read_lines(stream, max_record_bytes, stop), reading)
        if stop.number:
            raise ended_by(stop.number, sending.summary(topic))
        if not quiet:
            note(sending.summary(topic))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _size_bytes(stream: BinaryIO) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # a stream in memory
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def records_of(lines: Sequence[bytes], number: int, style: Style) -> Iterable[OutgoingTuple]:
    """The record of each line, the first of which is line `number`; raises `CliError` at a malformed line."""
    if style.as_json or style.key_separator is not None or style.null_value is not None:
        return _parsed(lines, number, style)
    return zip(lines, repeat(style.key), repeat(style.headers), repeat(None))


def _parsed(lines: Sequence[bytes], number: int, style: Style) -> Iterator[Outgoing]:
    parse = parse_json_record if style.as_json else partial(_parse_line, style)
    for index, line in enumerate(lines):
        try:
            yield parse(line)
        except ValueError as error:
            raise CliError(f"line {number + index}: {error}") from error


def _parse_line(style: Style, line: bytes) -> Outgoing:
    key, value = style.key, line
    if style.key_separator is not None:
        key, separator, value = line.partition(style.key_separator)
        if not separator:
            raise ValueError(f"no {os.fsdecode(style.key_separator)!r} between key and value")
    is_null = style.null_value is not None and value == style.null_value
    return Outgoing(None if is_null else value, key, style.headers)


class Sending:
    """Sends lines and counts them."""

    def __init__(self, sender: Sender, progress: Meter) -> None:
        self._sender = sender
        self._progress = progress
        self._size_bytes = 0
        self._started_s = time.monotonic()

    def send_all(self, chunks: Iterable[tuple[int, Sequence[bytes]]], style: Style) -> None:
        """Send until the input ends or a line is refused, then wait until everything sent is acknowledged or failed."""
        try:
            for number, lines in chunks:
                self._sender.send(number, records_of(lines, number, style))
                size_bytes = sum(map(len, lines))
                self._size_bytes += size_bytes
                self._progress.advance(len(lines), size_bytes + len(lines))
        finally:
            self._sender.settle()

    def summary(self, topic: str) -> str:
        """A line with the number, bytes and rate of acknowledged records; waits until all are acknowledged."""
        acknowledged = self._sender.settle()
        seconds = max(time.monotonic() - self._started_s, 1e-9)
        return (
            f"{counted(acknowledged, 'record')} ({self._size_bytes:,} bytes) "
            f"acknowledged by {topic!r} in {seconds:.1f} s, {acknowledged / seconds:,.0f} records/s"
        )
