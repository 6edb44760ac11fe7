"""Offsets as lines of `topic,partition,offset`, the format in which kafka-consumer-groups exports and reads them."""

import csv
from collections.abc import Iterable
from typing import TextIO

import click

from odradek.gateway.cli.client import TopicPartition, topic_partition
from odradek.gateway.cli.errors import CliError


class OffsetFile(click.ParamType[dict[TopicPartition, int]]):
    """A file of `topic,partition,offset` lines (`-` for stdin), converted to a dictionary of offsets by partition."""

    name = "file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[TopicPartition, int]:
        """Read the whole file; wrong usage if it does not exist or a line is malformed."""
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType]
        try:
            with click.open_file(str(value), encoding="utf-8") as stream:
                return read_offsets(stream)
        except (OSError, ValueError) as error:
            self.fail(f"{value}: {error}", param, ctx)


def read_offsets(stream: Iterable[str]) -> dict[TopicPartition, int]:
    """The offsets by partition. Raises ValueError naming the first malformed line."""
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(stream), start=1):
        if not row:
            continue
        try:
            topic, partition, offset = (cell.strip() for cell in row)
            offsets[topic_partition(topic, _natural(partition))] = _natural(offset)
        except ValueError:
            raise ValueError(f"line {number} is not TOPIC,PARTITION,OFFSET") from None
    return offsets


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def write_offsets(stream: TextIO, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
    """Write one line for each partition. Raises CliError if there are none, since an empty file would be useless."""
    rows = [(partition.topic, partition.partition, offset) for partition, offset in offsets]
    if not rows:
        raise CliError("there is no offset to export")
    csv.writer(stream, lineterminator="\n").writerows(rows)
