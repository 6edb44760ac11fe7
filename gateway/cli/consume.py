"""`odradek consume`: print the records of a topic of any Kafka, up to the current end, or also new ones."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click

from odradek.gateway.cli.client import Target, TopicPartition
from odradek.gateway.cli.clients.interface import CommitRefusedError, Reader, ReadSettings
from odradek.gateway.cli.clients.settings import client_option, open_reader
from odradek.gateway.cli.errors import ended_by
from odradek.gateway.cli.formats import FORMAT_HELP, Formatter, check_layout, formatter
from odradek.gateway.cli.options import INT32_MAX, Text, TopicName, connection_options
from odradek.gateway.cli.output import Meter, meter, note
from odradek.gateway.cli.positions import FROM_HELP, Start, find_partitions, parse_start, start_offsets
from odradek.gateway.cli.signals import Stop, stop_noticed
from odradek.gateway.cli.stdout_sink import Sink

POLL_MS = 250
COMMIT_EVERY_MS = 5_000

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
@click.argument("topic", type=TopicName())
@click.option("--from", "start", default="earliest", show_default=True, metavar="WHERE", help=FROM_HELP)
@click.option(
    "-p",
    "--partition",
    "chosen",
    type=click.IntRange(0, INT32_MAX),
    multiple=True,
    help="Only this partition. Repeatable.",
)
@click.option(
    "-g",
    "--group",
    type=Text(),
    help="Join this group: share partitions with its other members, start at and commit its "
    "offsets. --from is then used only for partitions without a committed offset.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new records instead of stopping at the end.")
@click.option("-n", "--max-messages", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-o", "--format", "layout", default="value", show_default=True, metavar="FORMAT", help=FORMAT_HELP)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether to show records of open and aborted transactions.",
)
@client_option
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
    client: str,
) -> None:
    """Print a topic's records; without --follow, up to the current end.

    With --group, the offsets of printed records are committed every auto.commit.interval.ms (5000), whenever no more
    records arrive, and at the end, also by Ctrl-C or SIGTERM. When stdout is a pipe that is closed, nothing more is
    committed.
    """
    where = _parsed(start, group, chosen, layout)
    commit_every_ms = _commit_interval_ms(target)
    settings = ReadSettings(group, where.reset_policy if group else "earliest", isolation)
    with open_reader(client, target, settings) as reader:
        partitions = find_partitions(reader, topic, chosen)
        starts = {} if group else start_offsets(reader, partitions, where)
        ends = None if follow else reader.end_offsets(partitions)
        with stop_noticed() as stop, _progress(topic, follow=follow) as progress:
            sink = Sink(sys.stdout.buffer, max_messages, progress, stop)
            reading = GroupReading(reader, topic, commit_every_ms) if group else PartitionReading(reader, starts)
            write = formatter(layout, reader.access, on_terminal=sys.stdout.isatty())
            Pump(reading, sink, write, stop).run(ends)


def _parsed(start: str, group: str | None, chosen: Sequence[int], layout: str) -> Start:
    try:
        where = parse_start(start)
    except ValueError:
        raise click.BadParameter(f"{start!r} is not {FROM_HELP}", param_hint="--from") from None
    if group is not None and chosen:
        raise click.UsageError("--group shares out partitions itself; drop --partition")
    if group is not None and not where.is_end:
        raise click.UsageError("with --group, --from is earliest or latest; see also `odradek groups reset-offsets`")
    try:
        check_layout(layout)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    return where


def _commit_interval_ms(target: Target) -> int:
    interval_ms = target.properties.get("auto_commit_interval_ms", COMMIT_EVERY_MS)
    if not isinstance(interval_ms, int) or interval_ms < 0:
        raise click.BadParameter("auto.commit.interval.ms is a number of milliseconds", param_hint="-X")
    return interval_ms


def _progress(topic: str, *, follow: bool) -> AbstractContextManager[Meter]:
    # Records on a terminal show the progress themselves.
    return meter(f"from {topic}", None, shown=not follow and not sys.stdout.isatty())


class PartitionReading:
    """Reads partitions assigned by hand; commits nothing."""

    def __init__(self, reader: Reader, starts: Mapping[TopicPartition, int]) -> None:
        self.reader = reader
        reader.assign(starts)

    def printed(self, partition: TopicPartition, next_offset: int) -> None:
        """Nothing to do, since nothing is committed."""

    def commit_if_due(self, *, idle: bool) -> None:
        """Nothing to commit."""

    def commit(self) -> None:
        """Nothing to commit."""

    def forget(self) -> None:
        """Nothing to forget."""


class GroupReading:
    """Reads as a group member; commits offsets of printed records at intervals, when idle, and before revocation."""

    def __init__(self, reader: Reader, topic: str, commit_every_ms: int) -> None:
        self.reader = reader
        self._printed: dict[TopicPartition, int] = {}
        self._commit_every_s = commit_every_ms / 1000
        self._committed_at_s = time.monotonic()
        reader.subscribe(topic, self)

    def printed(self, partition: TopicPartition, next_offset: int) -> None:
        """Record that everything below `next_offset` has been printed."""
        self._printed[partition] = next_offset

    def commit_if_due(self, *, idle: bool) -> None:
        """Commit if the interval has passed, or if `idle`."""
        if self._printed and (idle or time.monotonic() - self._committed_at_s >= self._commit_every_s):
            self.commit()

    def commit(self) -> None:
        """Commit the printed offsets of the partitions that this member still has.

        After a rebalance, the new owners of the other partitions may print the same records again.
        """
        owned = self.reader.assignment()
        self._commit({tp: offset for tp, offset in self._printed.items() if tp in owned})

    def forget(self) -> None:
        """Discard the printed offsets, so that they are not committed, not even when leaving the group."""
        self._printed.clear()

    def revoked(self) -> Mapping[TopicPartition, int]:
        """See `Releasing`."""
        return dict(self._printed)

    def lost(self) -> None:
        """See `Releasing`."""
        self._printed.clear()

    def committed(self, *, refused: bool) -> None:
        """See `Releasing`."""
        if refused:
            note("the group has rebalanced: what was printed since the last commit may be printed again")
        self._printed.clear()
        self._committed_at_s = time.monotonic()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        refused = False
        try:
            if offsets:
                self.reader.commit(offsets)
        except CommitRefusedError:
            refused = True
        self.committed(refused=refused)


Reading = PartitionReading | GroupReading


class Pump:
    """Copies records from the reader to stdout until the end offsets, the limit, or a signal."""

    def __init__(self, reading: Reading, sink: Sink, write: Formatter, stop: Stop) -> None:
        self._reading = reading
        self._sink = sink
        self._format = write
        self._stop = stop

    def run(self, ends: Mapping[TopicPartition, int] | None) -> None:
        """Consume, and commit the offsets of printed records. After a signal, raises the error for it.

        When the process that reads the pipe ends, nothing more is committed: how much it has read is unknown.
        """
        try:
            self._move(ends)
        except BrokenPipeError:
            self._reading.forget()
            raise
        self._reading.commit()
        if self._stop.number:
            raise ended_by(self._stop.number)

    def _move(self, ends: Mapping[TopicPartition, int] | None) -> None:
        while self._sink.room and not self._stop.number and not (ends is not None and self._is_finished(ends)):
            found = self._reading.reader.poll(POLL_MS, self._sink.room)
            for partition, records in found.items():
                if not self._print(partition, records, ends):
                    return
            self._sink.require_reader()
            self._reading.commit_if_due(idle=not found)

    def _print(
        self, partition: TopicPartition, records: Sequence[Any], ends: Mapping[TopicPartition, int] | None
    ) -> bool:
        """Returns True if all records were printed; False after a signal while stdout, a pipe, was full."""
        offset = self._reading.reader.access.offset
        if ends is not None and offset(records[-1]) >= (end := _end(ends, partition)):  # appended since the start
            records = [record for record in records if offset(record) < end]
        count = self._sink.write(self._format(records)) if records else 0
        if count:
            self._reading.printed(partition, offset(records[count - 1]) + 1)
        return count == len(records)

    def _is_finished(self, ends: Mapping[TopicPartition, int]) -> bool:
        reader = self._reading.reader
        if isinstance(self._reading, GroupReading) and not reader.is_settled():
            return False
        assigned = list(reader.assignment())
        if not assigned:
            note("the group gave this member no partition: it has more members than the topic has partitions")
            return True
        done = [tp for tp in assigned if (reader.position(tp, POLL_MS) or 0) >= _end(ends, tp)]
        reader.pause(done)
        return len(done) == len(assigned)


def _end(ends: Mapping[TopicPartition, int], partition: TopicPartition) -> int:
    """Where to stop in a partition; 0, before everything, in one that the topic has got since the start."""
    return ends.get(partition, 0)
