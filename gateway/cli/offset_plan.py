"""The new offsets of `odradek groups reset-offsets`: pure functions, no I/O.

The rules are those of Kafka's kafka-consumer-groups: a result outside the partition's bounds is moved to the nearer
bound, a time after the last record means the end, a shift is relative to the committed offset.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.gateway.cli.client import TopicPartition
from odradek.gateway.cli.errors import CliError


@dataclass(frozen=True, slots=True)
class Goal:
    """The position that the user requested; exactly one field is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    to_time_ms: int | None = None
    shift_by: int | None = None
    to_offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of one partition: bounds, the committed offset, and the first offset at or after the goal's time."""

    start_offset: int
    end_offset: int
    committed: int | None = None
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The change for one partition; `committed` is None if the group had no offset."""

    partition: TopicPartition
    committed: int | None
    target: int


def plan(goal: Goal, situations: Mapping[TopicPartition, Situation]) -> list[Step]:
    """One step for every partition; raises `CliError` if the goal needs a committed offset and there is none."""
    return [
        Step(partition, situation.committed, _held(_wanted(goal, partition, situation), situation))
        for partition, situation in sorted(situations.items())
    ]


def _wanted(goal: Goal, partition: TopicPartition, situation: Situation) -> int:
    if goal.to_earliest:
        return situation.start_offset
    if goal.to_offset is not None:
        return goal.to_offset
    if goal.to_offsets is not None:
        return goal.to_offsets[partition]
    if goal.to_time_ms is not None:
        return situation.end_offset if situation.at_time is None else situation.at_time
    if goal.to_current:
        return situation.end_offset if situation.committed is None else situation.committed
    if goal.shift_by is not None:
        return _committed(partition, situation) + goal.shift_by
    return situation.end_offset


def _committed(partition: TopicPartition, situation: Situation) -> int:
    if situation.committed is None:
        raise CliError(
            f"{partition.topic}-{partition.partition} has no committed offset to shift from; name the partitions "
            "that have one with --topic TOPIC:0,1"
        )
    return situation.committed


def _held(offset: int, situation: Situation) -> int:
    return min(max(offset, situation.start_offset), situation.end_offset)
