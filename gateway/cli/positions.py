"""Where `odradek consume` starts: the meaning of --from, the partitions, and their first offsets. Prints nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.gateway.cli.client import TopicPartition
from odradek.gateway.cli.clients.interface import Reader
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.options import INT64_MAX, parse_moment_ms

FROM_HELP = (
    "`earliest`, `latest`, an offset, -N for the last N records of each partition, "
    "or a time such as 2013-07-01T12:00:00Z."
)


@dataclass(frozen=True, slots=True)
class Start:
    """A start position. At most one field is set; if none is, it is the first record."""

    latest: bool = False
    offset: int | None = None
    last: int | None = None
    time_ms: int | None = None

    @property
    def is_end(self) -> bool:
        """True if it is the first record or the end."""
        return self in {Start(), Start(latest=True)}

    @property
    def reset_policy(self) -> str:
        """Kafka's `auto.offset.reset` for a start for which `is_end` is true."""
        return "latest" if self.latest else "earliest"


def parse_start(text: str) -> Start:
    """Parse the value of --from; raises ValueError."""
    if text in {"earliest", "beginning"}:
        return Start()
    if text in {"latest", "end"}:
        return Start(latest=True)
    if text.removeprefix("-").isdecimal():
        number = int(text)
        if abs(number) > INT64_MAX:
            raise ValueError(text)
        return Start(last=-number) if text.startswith("-") else Start(offset=number)
    return Start(time_ms=parse_moment_ms(text))


def find_partitions(reader: Reader, topic: str, chosen: Sequence[int]) -> list[TopicPartition]:
    """The chosen partitions of a topic, or all; raises `CliError` if the topic or one of them does not exist."""
    existing = set(reader.partitions_of(topic))
    if not existing:
        raise CliError(f"topic {topic!r} does not exist")
    if missing := sorted(set(chosen) - existing):
        raise CliError(f"topic {topic!r} has no partition {missing[0]}; it has {len(existing)}")
    return [TopicPartition(topic, index) for index in sorted(set(chosen) or existing)]


def start_offsets(reader: Reader, partitions: Sequence[TopicPartition], start: Start) -> dict[TopicPartition, int]:
    """The first offset to read of each partition, within the partition's bounds."""
    first, end = reader.first_offsets(partitions), reader.end_offsets(partitions)
    if start.time_ms is not None:
        times = reader.offsets_at(partitions, max(start.time_ms, 0))
        return {tp: times.get(tp, end[tp]) for tp in partitions}
    return {tp: _start_offset(start, first[tp], end[tp]) for tp in partitions}


def _start_offset(start: Start, first: int, end: int) -> int:
    if start.latest:
        return end
    if start.last is not None:
        return max(first, end - start.last)
    return first if start.offset is None else min(max(start.offset, first), end)
