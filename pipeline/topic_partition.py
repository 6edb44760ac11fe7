"""Partitions of topics and offsets in them: values that jobs, the cluster's facts and the wire client share."""

from typing import Final, NamedTuple

EARLIEST: Final = -2
LATEST: Final = -1


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


Offsets = dict[TopicPartition, int]
