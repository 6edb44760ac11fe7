"""`odradek consume`: print the records of a topic of any Kafka, up to the present end or for as long as they come."""

import select
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO

import click

from gateway.cli.client import Consumer, Record, Target, TopicPartition, library, open_consumer
from gateway.cli.errors import InterruptedCommandError
from gateway.cli.formats import FORMAT_HELP, Formatter, formatter
from gateway.cli.options import connection_options
from gateway.cli.output import Meter, meter, note
from gateway.cli.positions import FROM_HELP, Start, find_partitions, parse_start, start_offsets

POLL_MS = 250
MAX_POLL_RECORDS = 2_000
COMMIT_EVERY_S = 5.0

EPILOG = """\
\b
Examples:
  odradek consume greetings
  odradek consume logs --from -10 --follow
  odradek consume logs --from 2013-07-01T12:00:00Z --partition 0 --max-messages 100
  odradek consume users --format '{offset} {key}={value}'
  odradek consume jobs --group workers --follow --format json
"""


@click.command("consume", epilog=EPILOG)
@click.argument("topic")
@click.option("--from", "start", default="earliest", show_default=True, metavar="WHERE", help=FROM_HELP)
@click.option(
    "-p", "--partition", "chosen", type=click.IntRange(min=0), multiple=True, help="Only this partition. Repeatable."
)
@click.option(
    "-g",
    "--group",
    help="Join this group: share partitions with its other members, go on from and commit its "
    "offsets. --from then only says where to start without committed offsets.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more instead of stopping at the end.")
@click.option("-n", "--max-messages", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-o", "--format", "layout", default="value", show_default=True, metavar="FORMAT", help=FORMAT_HELP)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to show records of open and aborted transactions.",
)
@connection_options
def consume(
    target: Target,
    *,
    topic: str,
    start: str,
    chosen: Sequence[int],
    group: str | None,
    follow: bool,
    max_messages: int | None,
    layout: str,
    isolation: str,
) -> None:
    """Print a topic's records; without --follow, those that are there now."""
    where, write = _parsed(start, group, chosen, layout)
    settings = {"isolation_level": isolation, "max_poll_records": MAX_POLL_RECORDS}
    if group is not None:
        settings |= {"group_id": group, "auto_offset_reset": where.reset_policy}
    with open_consumer(target, **settings) as consumer:
        partitions = find_partitions(consumer, topic, chosen)
        if group is None:
            reading: Reading = PartitionReading(consumer, start_offsets(consumer, partitions, where))
        else:
            reading = GroupReading(consumer, topic)
        ends = {} if follow else consumer.end_offsets(partitions)
        with _progress(topic, follow=follow) as progress:
            sink = Sink(sys.stdout.buffer, write, max_messages, progress)
            _pump(reading, sink, None if follow else ends)


def _parsed(start: str, group: str | None, chosen: Sequence[int], layout: str) -> tuple[Start, Formatter]:
    try:
        where = parse_start(start)
    except ValueError:
        raise click.BadParameter(f"{start!r} is not {FROM_HELP}", param_hint="--from") from None
    if group is not None and chosen:
        raise click.UsageError("--group shares out partitions itself; drop --partition")
    if group is not None and where.reset_policy is None:
        raise click.UsageError("with --group, --from is earliest or latest; see also `odradek groups reset-offsets`")
    try:
        return where, formatter(layout)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _progress(topic: str, *, follow: bool) -> AbstractContextManager[Meter]:
    # Records on a terminal are progress enough.
    return meter(f"from {topic}", None, shown=not follow and not sys.stdout.isatty())


class Sink:
    """Writes records to stdout and counts them; `room` says how many more are wanted."""

    def __init__(self, stream: BinaryIO, write: Formatter, limit: int | None, progress: Meter) -> None:
        self._stream = stream
        self._format = write
        self._left = limit
        self._progress = progress
        self._poll = _watch_pipe(stream)

    @property
    def room(self) -> int:
        """How many records the next poll may bring; 0 when the limit is reached."""
        return MAX_POLL_RECORDS if self._left is None else min(self._left, MAX_POLL_RECORDS)

    def require_reader(self) -> None:
        """Raise BrokenPipeError once nobody reads the pipe any more, though there may be nothing to write."""
        if self._poll is not None and any(event & select.POLLERR for _, event in self._poll.poll(0)):
            raise BrokenPipeError

    def write(self, records: Sequence[Record]) -> None:
        """Print records and flush, so that a reader sees them now and a commit never runs ahead of the output."""
        data = b"".join(map(self._format, records))
        self._stream.write(data)
        self._stream.flush()
        self._progress.advance(len(records), len(data))
        if self._left is not None:
            self._left -= len(records)


def _watch_pipe(stream: BinaryIO) -> "select.poll | None":
    try:
        descriptor = stream.fileno()
    except OSError:  # in memory, not a file of the operating system's
        return None
    watched = select.poll()
    watched.register(descriptor, 0)
    return watched


class PartitionReading:
    """Reads partitions assigned by hand; commits nothing."""

    def __init__(self, consumer: Consumer, starts: Mapping[TopicPartition, int]) -> None:
        self.consumer = consumer
        consumer.assign(list(starts))
        for partition, offset in starts.items():
            consumer.seek(partition, offset)

    def is_settled(self) -> bool:
        """Whether the assignment is known."""
        return True

    def printed(self, partition: TopicPartition, next_offset: int) -> None:
        """Nothing to remember."""

    def commit(self) -> None:
        """Nothing to commit."""


class GroupReading:
    """Reads as a member of a group and commits what was printed, at the latest every `COMMIT_EVERY_S`."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        self._printed: dict[TopicPartition, int] = {}
        self._committed_at_s = time.monotonic()
        consumer.subscribe([topic])

    def is_settled(self) -> bool:
        """Whether the group has shared out its partitions."""
        return self.consumer.group_metadata().state == "<stable>"

    def printed(self, partition: TopicPartition, next_offset: int) -> None:
        """Remember that everything below `next_offset` is on stdout."""
        self._printed[partition] = next_offset
        if time.monotonic() - self._committed_at_s > COMMIT_EVERY_S:
            self.commit()

    def commit(self) -> None:
        """Commit what was printed of the partitions that are still ours; the others' new owners print it again."""
        committed = library().OffsetAndMetadata
        owned = self.consumer.assignment()
        offsets = {tp: committed(offset, "", -1) for tp, offset in self._printed.items() if tp in owned}
        if offsets:
            self.consumer.commit(offsets)
        self._printed.clear()
        self._committed_at_s = time.monotonic()


Reading = PartitionReading | GroupReading


def _pump(reading: Reading, sink: Sink, ends: Mapping[TopicPartition, int] | None) -> None:
    try:
        while sink.room and not (ends is not None and _is_finished(reading, ends)):
            for partition, records in reading.consumer.poll(POLL_MS, max_records=sink.room).items():
                wanted = records if ends is None else _below(records, ends[partition])
                if wanted:
                    sink.write(wanted)
                    reading.printed(partition, wanted[-1].offset + 1)
            sink.require_reader()
    except KeyboardInterrupt:
        reading.commit()
        raise InterruptedCommandError("interrupted") from None
    reading.commit()


def _below(records: Sequence[Record], end: int) -> Sequence[Record]:
    # Records that came after the start are not asked for.
    return records if records[-1].offset < end else [record for record in records if record.offset < end]


def _is_finished(reading: Reading, ends: Mapping[TopicPartition, int]) -> bool:
    if not reading.is_settled():
        return False
    assigned = reading.consumer.assignment()
    if not assigned:
        note("the group gave this member no partition: it has more members than the topic has partitions")
        return True
    done = [tp for tp in assigned if (reading.consumer.position(tp, timeout_ms=POLL_MS) or 0) >= ends[tp]]
    reading.consumer.pause(*done)
    return len(done) == len(assigned)
