"""`odradek produce`: stream the lines of stdin into a topic of any Kafka, in bounded memory."""

import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import click

from gateway.cli.assignment import Assignment
from gateway.cli.client import Producer, SentRecord, Target, open_producer
from gateway.cli.errors import CliError, InterruptedCommandError, explained
from gateway.cli.formats import Outgoing, parse_json_record
from gateway.cli.options import connection_options
from gateway.cli.output import Meter, counted, meter, note

MAX_UNACKNOWLEDGED_BYTES = 32 * 1024 * 1024
MAX_UNACKNOWLEDGED_RECORDS = 50_000
RECORD_OVERHEAD_BYTES = 300  # what a waiting record costs besides its own bytes
METER_EVERY_RECORDS = 1_000
LINGER_MS = 5

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
    headers: Sequence[tuple[str, bytes]] = ()


@click.command("produce", epilog=EPILOG)
@click.argument("topic")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", help="Each line is a key, this text, and a value.")
@click.option("--null-value", metavar="TEXT", help="A value of this text becomes a null, a tombstone.")
@click.option(
    "-H", "--header", "headers", type=Assignment(), multiple=True, help="A header of every record. Repeatable."
)
@click.option(
    "--input",
    "style",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="What stdin holds; `json` is what `consume --format json` prints.",
)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@click.option(
    "-z",
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Compression.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Who must have a record before it counts as sent.",
)
@click.option(
    "--max-record-bytes", type=click.IntRange(min=1), default=1_048_576, show_default=True, help="Refuse longer lines."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
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
        [(name, text.encode()) for name, text in headers],
    )
    settings = _settings(codec, acks, max_record_bytes)
    with open_producer(target, **settings) as producer:
        total = _size_bytes(stream)
        with meter(f"to {topic}", total, of_bytes=True, shown=not (quiet or stream.isatty())) as progress:
            sending = Sending(producer, topic, partition, progress)
            try:
                _send_all(sending, read_records(stream, reading, max_record_bytes))
            except KeyboardInterrupt:
                sending.settle_all()
                raise InterruptedCommandError(f"interrupted; {sending.summary()}") from None
    if not quiet:
        note(sending.summary())


def _settings(codec: str, acks: str, max_record_bytes: int) -> dict[str, Any]:
    return {
        "acks": "all" if acks == "all" else int(acks),
        "enable_idempotence": acks == "all",
        "compression_type": None if codec == "none" else codec,
        "linger_ms": LINGER_MS,
        "batch_size": 131_072,
        "max_request_size": max_record_bytes + 1_024,
    }


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _size_bytes(stream: BinaryIO) -> int | None:
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # not a file of the operating system's
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def read_records(stream: BinaryIO, style: Style, max_record_bytes: int) -> Iterator[tuple[int, Outgoing]]:
    """Line number and record of each line, read one at a time; raises `CliError` for a line that is none."""
    number = 0
    while line := stream.readline(max_record_bytes + 2):
        number += 1
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > max_record_bytes:
            raise CliError(f"line {number} is longer than --max-record-bytes {max_record_bytes}")
        try:
            record = parse_json_record(line) if style.as_json else _parse_line(line, style)
        except ValueError as error:
            raise CliError(f"line {number}: {error}") from error
        yield number, record


def _parse_line(line: bytes, style: Style) -> Outgoing:
    key, value = style.key, line
    if style.key_separator is not None:
        key, separator, value = line.partition(style.key_separator)
        if not separator:
            raise ValueError(f"no {style.key_separator.decode()!r} between key and value")
    is_null = style.null_value is not None and value == style.null_value
    return Outgoing(None if is_null else value, key, style.headers)


def _send_all(sending: "Sending", records: Iterator[tuple[int, Outgoing]]) -> None:
    try:
        for number, record in records:
            sending.send(number, record)
    finally:
        sending.settle_all()


class Sending:
    """Sends records and waits for the oldest acknowledgement whenever too much is under way.

    The first record that fails ends everything: `send` and `settle_all` raise `CliError` naming its line.
    """

    def __init__(self, producer: Producer, topic: str, partition: int | None, progress: Meter) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._progress = progress
        self._waiting: deque[tuple[SentRecord, int, int]] = deque()
        self._waiting_bytes = 0
        self._unreported = (0, 0)
        self._started_s = time.monotonic()
        self.acknowledged = 0
        self.acknowledged_bytes = 0

    def send(self, number: int, record: Outgoing) -> None:
        """Hand one record, from input line `number`, to the client; blocks while too much is unacknowledged."""
        size = len(record.value or b"") + len(record.key or b"")
        try:
            future = self._producer.send(
                self._topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=self._partition,
                timestamp_ms=record.timestamp_ms,
            )
        except Exception as error:
            raise self._failure(number, error) from error
        self._waiting.append((future, number, size))
        self._waiting_bytes += size + RECORD_OVERHEAD_BYTES
        while self._waiting and (self._is_crowded() or self._waiting[0][0].is_done):
            self._settle_oldest()

    def settle_all(self) -> None:
        """Wait until everything sent is acknowledged."""
        self._producer.flush()
        while self._waiting:
            self._settle_oldest()
        self._report(1)

    def summary(self) -> str:
        """What was acknowledged and how quickly."""
        seconds = max(time.monotonic() - self._started_s, 1e-9)
        rate = f"{self.acknowledged / seconds:,.0f} records/s"
        return (
            f"{counted(self.acknowledged, 'record')} ({self.acknowledged_bytes:,} bytes) "
            f"acknowledged by {self._topic!r} in {seconds:.1f} s, {rate}"
        )

    def _is_crowded(self) -> bool:
        return len(self._waiting) > MAX_UNACKNOWLEDGED_RECORDS or self._waiting_bytes > MAX_UNACKNOWLEDGED_BYTES

    def _settle_oldest(self) -> None:
        future, number, size = self._waiting.popleft()
        self._waiting_bytes -= size + RECORD_OVERHEAD_BYTES
        try:
            future.get(timeout=120)
        except Exception as error:
            self._waiting.clear()
            raise self._failure(number, error) from error
        self.acknowledged += 1
        self.acknowledged_bytes += size
        self._unreported = (self._unreported[0] + 1, self._unreported[1] + size + 1)
        self._report(METER_EVERY_RECORDS)

    def _report(self, at_least: int) -> None:
        if self._unreported[0] >= at_least:
            self._progress.advance(*self._unreported)
            self._unreported = (0, 0)

    def _failure(self, number: int, error: Exception) -> CliError:
        known = explained(error)
        if known is None and not isinstance(error, (ValueError, TypeError, AssertionError)):
            raise error
        before = counted(self.acknowledged, "record")
        return CliError(f"line {number}: {known.message if known else error} (acknowledged before: {before})")
