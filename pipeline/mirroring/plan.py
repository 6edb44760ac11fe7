"""The plan of a copy: the method and the first offset, decided once for each partition from the state of both clusters.

    target         its partition                                method
    ImportBatches  is empty                                     verbatim, from the source's log start
                   ends at the mirror's committed progress      verbatim, from its end
                   ends with the source's batch at that offset  verbatim, from its end
    any Kafka      has an entry in the offset map               renumbered, from the entry's next offset
                   is empty, or --append                        renumbered, from the source's log start
                   has records of other producers               refused

Partitions of a topic that are planned together have the same method: verbatim only if it is possible for all of them.

A mirror that copies verbatim commits its progress at the target as offsets of the group `odradek-mirror.<cluster id>`,
before the first batch and after each pass. A log that ends at that offset has only the mirror's records. One that ends
later, as after a crash, has to end with a batch that the source has, too; compaction of the source may have made that
batch smaller or removed it.
"""

from collections.abc import Mapping
from typing import Final

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring.batches import batch_with, extent
from odradek.pipeline.mirroring.offset_map import Maps
from odradek.pipeline.mirroring.verbatim import Part
from odradek.pipeline.report import PartitionReport
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition
from odradek.pipeline.wire_client import READ_COMMITTED, WireClient
from odradek.wire.api_keys import ApiKey

ONE_BATCH_BYTES: Final = 1
"""Fetches one batch: the first batch is returned whole, whatever its size."""


def progress_group(cluster_id: str) -> str:
    """Return the group at the target whose committed offsets are the progress of verbatim copies of a cluster."""
    return f"odradek-mirror.{cluster_id}"


class Planner:
    """Plans copies, once per partition. Raises PipelineError."""

    def __init__(self, source: WireClient, target: WireClient, source_facts: Cluster, *, append: bool) -> None:
        self._source, self._target, self._facts, self._append = source, target, source_facts, append
        self._imports = target.has_api(ApiKey.IMPORT_BATCHES)
        self.verbatim: dict[TopicPartition, Part] = {}
        self.renumbered: dict[TopicPartition, Part] = {}

    def add(self, topics: Mapping[str, int], maps: Maps, own: Offsets) -> None:
        """Plan the topics and partitions that are not planned yet."""
        for topic, count in topics.items():
            places = [TopicPartition(topic, index) for index in range(count)]
            new = [place for place in places if place not in self.verbatim and place not in self.renumbered]
            if new:
                self._decide(topic, new, maps, own)

    def _decide(self, topic: str, places: list[TopicPartition], maps: Maps, own: Offsets) -> None:
        starts = self._source.list_offsets(places, EARLIEST)
        ends = self._target.list_offsets(places, LATEST)
        taken = {place: end for place, end in ends.items() if end > 0}
        known = any(place in maps for place in maps if place.topic == topic)
        if known or any(place.topic == topic for place in self.renumbered):
            self._renumber(places, starts, maps)
        elif self._imports and all(self._continues(place, end, starts[place], own) for place, end in taken.items()):
            for place in places:
                begin = taken.get(place, starts[place])
                self.verbatim[place] = _part(place, begin, log_start=starts[place], is_empty=place not in taken)
        elif taken and not self._append:
            names = ", ".join(f"{place.topic}-{place.partition}" for place in taken)
            raise PipelineError(
                f"{names} at the target holds records that are not the source's: empty the topic, or copy behind them "
                "with --append"
            )
        else:
            self._renumber(places, starts, maps)

    def _renumber(self, places: list[TopicPartition], starts: Offsets, maps: Maps) -> None:
        for place in places:
            known = maps[place].next_offset if place in maps else None
            self.renumbered[place] = _part(place, starts[place] if known is None else known)

    def _continues(self, place: TopicPartition, end: int, source_start: int, own: Offsets) -> bool:
        """True if the target's log is the beginning of the source's."""
        if end > self._source.list_offsets([place], LATEST)[place]:
            return False
        if own.get(place) == end:
            return True
        if source_start >= end:
            return False
        theirs = self._last_batch(self._source, place, end - 1)
        ours = self._last_batch(self._target, place, end - 1)
        if ours is None or place not in own or not self._facts.is_compacted(place.topic):
            return ours == theirs and ours is not None
        return theirs is None or extent(theirs) == extent(ours)

    @staticmethod
    def _last_batch(client: WireClient, place: TopicPartition, offset: int) -> bytes | None:
        fetched = client.fetch(
            {place: offset}, max_bytes=ONE_BATCH_BYTES, partition_max_bytes=ONE_BATCH_BYTES, max_wait_ms=0
        )[place]
        return batch_with(fetched.records, offset)

    def find_ends(self) -> None:
        """Set each part's end to the current end of the source's log; for renumbered parts to its last stable
        offset.
        """
        ends = self._source.list_offsets(self.verbatim, LATEST)
        stable = self._source.list_offsets(self.renumbered, LATEST, READ_COMMITTED)
        for parts, found in ((self.verbatim, ends), (self.renumbered, stable)):
            for place, part in parts.items():
                part.end_offset = found[place]

    def forget(self, topic: str) -> None:
        """Remove a deleted topic."""
        for parts in (self.verbatim, self.renumbered):
            for place in [place for place in parts if place.topic == topic]:
                del parts[place]


def _part(place: TopicPartition, begin: int, *, log_start: int = 0, is_empty: bool = False) -> Part:
    report = PartitionReport(place.topic, place.partition, begin, begin)
    return Part(report, begin, begin, is_empty=is_empty, log_start=log_start)
