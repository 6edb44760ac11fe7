"""Fills offsets for which a table has no record, in a Kafka that assigns consecutive offsets.

A transaction without records leaves one marker: one offset that consumers never receive. The gap before the first
record, after the source's retention, may be long: it is filled with filler records, and the log start is moved after
them before the first record is written.
"""

import time
from collections.abc import Iterator
from typing import Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.writing.encoding import CODECS, Row
from odradek.pipeline.writing.producing import PartitionProducer, end_offset
from odradek.pipeline.writing.transactions import Transactions

FILLER_KEY: Final = b"odradek.filler"
FILLERS_A_BATCH: Final = 20_000
_LOOK_EVERY_S: Final = 0.001
_PAUSE_S: Final = 0.02


class GapFiller:
    """Fills gaps of one partition. The constructor ends a transaction that a killed run left open."""

    def __init__(self, client: WireClient, place: TopicPartition) -> None:
        self._client, self._place = client, place
        self._transactions = Transactions(client, f"odradek-restore-gaps-{place.topic}-{place.partition}")

    def fill(self, end: int, goal: int) -> int:
        """Write markers until the partition, which ends at `end`, ends at `goal`; returns how many. Raises
        PipelineError if it ends elsewhere, since another producer is writing to it.
        """
        for offset in range(end, goal):
            self._transactions.begin([self._place])
            self._transactions.end(committed=True)
            self._await(offset + 1)
        return goal - end

    def _await(self, expected: int) -> None:
        """Wait until the marker is in the log, since the next record has to follow it."""
        deadline, pause_s = time.monotonic() + self._client.timeout_s, _LOOK_EVERY_S
        while (end := end_offset(self._client, self._place)) < expected:
            if time.monotonic() > deadline:
                raise PipelineError(f"{_name(self._place)} ends at {end}, and no marker comes at {expected - 1}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S)
        if end > expected:
            raise PipelineError(
                f"{_name(self._place)} ends at {end} instead of {expected}: something else writes to it"
            )


def fill_the_beginning(client: WireClient, place: TopicPartition, end: int, first: int) -> int:
    """Set the log start of a partition that ends at `end`, and has only fillers, to `first`. Returns the number of
    fillers written. Raises PipelineError: POLICY_VIOLATION if the topic's cleanup.policy is only compact.
    """
    producer = PartitionProducer(client, place, codec=CODECS["zstd"])
    for rows in _fillers(end, first):
        base_offset = producer.append(rows)
        if base_offset != rows[0].offset:
            raise PipelineError(f"{_name(place)}: something else writes to it, at offset {rows[0].offset}")
    client.delete_records({place: first})
    return max(0, first - end)


def _fillers(begin: int, end: int) -> Iterator[list[Row]]:
    now_ms = time.time_ns() // 1_000_000
    for start in range(begin, end, FILLERS_A_BATCH):
        yield [
            Row(offset, now_ms, 0, FILLER_KEY, None, ()) for offset in range(start, min(end, start + FILLERS_A_BATCH))
        ]


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
