"""The mirror job: passes that plan, copy, and commit groups' offsets, once or until the job is stopped."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.gateway.cli.output import Meter, meter, note
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.mirroring import topics as topics_of
from odradek.pipeline.mirroring.groups import Groups, as_json
from odradek.pipeline.mirroring.offset_map import Maps, read_maps
from odradek.pipeline.mirroring.plan import Planner, progress_group
from odradek.pipeline.mirroring.renumbered import copy_topic
from odradek.pipeline.mirroring.verbatim import CopyPass, Part, copy_pass, ends_of
from odradek.pipeline.report import Report
from odradek.pipeline.retrying import Retries, may_pass
from odradek.pipeline.topic_partition import Offsets, TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.wire_groups import WireGroups

ROUND_S: Final = 10.0
"""The longest time of a pass of a continuous job. Between passes topics are listed and groups copied again."""
IDLE_S: Final = 0.5
LAG_EVERY_S: Final = 10.0
SETTINGS_EVERY_S: Final = 60.0
RETRY_LIMIT_S: Final = 120.0
EVERY_TOPIC: Final = ".*"


def mirror(
    source: Connection,
    target: Connection,
    *,
    topics: str = EVERY_TOPIC,
    groups: str | None = None,
    continuous: bool = False,
    append: bool = False,
    stopping: Callable[[], bool] = lambda: False,
    shown: bool = True,
) -> Report:
    """Copy topics from one cluster to another, each record once, and the committed offsets of groups.

    `topics` and `groups` are regular expressions for the whole name; internal topics are never copied, and without
    `groups` no offsets are. To an Odradek the batches are copied unchanged, with the same offsets; to another Kafka
    single records, with an offset map (docs/pipeline.md). The next run continues one that was killed.

    Copies everything available, or, if `continuous`, runs until `stopping()`. `append` allows copying to the end of
    topics with other records. `shown` prints notes and progress on stderr. A topic that is deleted during the job makes
    the report incomplete. Raises PipelineError if the job cannot continue; records copied before are kept.
    """
    with (
        WireClient(source) as reader,
        WireClient(target) as writer,
        Cluster(source) as source_facts,
        Cluster(target) as target_facts,
    ):
        job = _Mirror(reader, writer, source_facts, target_facts, append=append, stopping=stopping, shown=shown)
        job.group_copies = None if groups is None else Groups(WireGroups(reader), WireGroups(writer), groups)
        job.run(topics, continuous=continuous)
        return job.report()


class _Mirror:
    def __init__(
        self,
        reader: WireClient,
        writer: WireClient,
        source: Cluster,
        target: Cluster,
        *,
        append: bool,
        stopping: Callable[[], bool],
        shown: bool,
    ) -> None:
        self._reader, self._writer, self._source, self._target = reader, writer, source, target
        self._stopping, self._shown, self._append = stopping, shown, append
        self._next_sync_s = 0.0
        self._noted: set[str] = set()
        self._planner = Planner(reader, writer, source, append=append)
        reader.topics(())  # a metadata response contains the cluster id
        self._own = WireGroups(writer)
        self._cluster_id = reader.cluster_id
        self._gone: dict[str, str] = {}
        self._finished: list[Part] = []
        self._maps: Maps = {}
        self._lag_noted_s = time.monotonic()
        self._stopped = False
        self._published: Offsets = {}
        self._ids: dict[str, UUID] = {}
        self.group_copies: Groups | None = None

    def run(self, pattern: str, *, continuous: bool) -> None:
        """Run passes until everything is copied, or the job has to stop."""
        retries = Retries(None if continuous else RETRY_LIMIT_S, self._stopping)
        while not self._stopping():
            before = self._lag()
            try:
                self._pass(pattern, continuous=continuous)
            except PipelineError as error:
                if not may_pass(error) or retries.is_over:
                    raise
                if retries.is_first:
                    self._note(f"trying again: {error.message}")
                retries.wait()
                continue
            retries.progress()
            if not continuous:
                break
            self._note_lag()
            if not self._lag() and not before:
                time.sleep(IDLE_S)
        self._stopped = self._stopping() and not continuous

    def _pass(self, pattern: str, *, continuous: bool) -> None:
        self._plan(pattern)
        with meter("mirror", None if continuous else self._lag(), shown=self._shown and not continuous) as shown:
            self._copy(shown, continuous=continuous)
        self._commit()

    def _plan(self, pattern: str) -> None:
        wanted = self._still_there(topics_of.selected(self._source.topics(), pattern))
        for line in topics_of.prepare(self._source, self._target, wanted):
            self._note(line)
        self._sync_settings(wanted)
        own = self._own.committed(progress_group(self._cluster_id))
        self._maps = read_maps(self._target, self._cluster_id) | self._maps
        self._planner.add(wanted, self._maps, own)
        self._planner.find_ends()
        self._publish({place: part.report.to_offset for place, part in self._planner.verbatim.items()}, own)

    def _sync_settings(self, wanted: Mapping[str, int]) -> None:
        """Copy topics' settings at intervals, unless the topics are shared with other producers."""
        now_s = time.monotonic()
        if self._append or now_s < self._next_sync_s:
            return
        self._next_sync_s = now_s + SETTINGS_EVERY_S
        for line in topics_of.sync_settings(self._source, self._target, wanted):
            if line not in self._noted:
                self._noted.add(line)
                self._note(line)

    def _still_there(self, topics: dict[str, int]) -> dict[str, int]:
        """Return the topics that are new or have the same id as before; stop copying the others."""
        ids = self._reader.topics(topics)
        for topic in self._ids.keys() - ids.keys() - self._gone.keys():
            self._forget(topic, "it was deleted at the source")
        for topic, info in ids.items():
            if self._ids.setdefault(topic, info.topic_id) != info.topic_id and topic not in self._gone:
                self._forget(topic, "it was deleted and created again at the source")
        return {name: count for name, count in topics.items() if name in ids and name not in self._gone}

    def _publish(self, ends: Offsets, known: Offsets) -> None:
        """Commit the progress of verbatim copies, as a group's offsets."""
        news = {place: end for place, end in ends.items() if known.get(place) != end}
        self._own.commit(progress_group(self._cluster_id), news)
        self._published = known | news

    def _parts(self) -> list[Part]:
        return [*self._planner.verbatim.values(), *self._planner.renumbered.values()]

    def _lag(self) -> int:
        return sum(part.end_offset - part.report.to_offset for part in self._parts())

    def _copy(self, shown: Meter, *, continuous: bool) -> None:
        deadline = time.monotonic() + ROUND_S if continuous else None

        def stopping() -> bool:
            return self._stopping() or (deadline is not None and time.monotonic() > deadline)

        retry_limit_s = None if continuous else RETRY_LIMIT_S
        due = _due(self._planner.verbatim.values())
        if due:
            copied = CopyPass({part.place: part for part in due}, stopping, shown, self._note, retry_limit_s)
            for part in due:
                part.next_offset = part.report.to_offset
            copy_pass(self._reader_connection, self._writer, copied)
            self._drop_gone(copied)
        for topic in sorted({part.place.topic for part in _due(self._planner.renumbered.values())}):
            if stopping():
                return
            parts = {place: part for place, part in self._planner.renumbered.items() if place.topic == topic}
            copied = CopyPass(parts, stopping, shown, self._note, retry_limit_s)
            self._maps |= copy_topic(self._reader_connection, self._target, self._cluster_id, topic, copied)
            self._drop_gone(copied)

    @property
    def _reader_connection(self) -> Connection:
        return self._source.connection

    def _drop_gone(self, copied: CopyPass) -> None:
        for topic, why in copied.gone.items():
            self._forget(topic, why)

    def _forget(self, topic: str, why: str) -> None:
        self._gone[topic] = why
        self._note(f"topic {topic!r} is copied no longer: {why}")
        self._finished += [part for part in self._parts() if part.place.topic == topic]
        self._planner.forget(topic)

    def _commit(self) -> None:
        self._publish(ends_of(self._planner.verbatim.values()), self._published)
        if self.group_copies is not None:
            self.group_copies.copy(self._translated)

    def _translated(self, place: TopicPartition, offset: int) -> int | None:
        part = self._planner.verbatim.get(place)
        if part is not None:
            return min(offset, part.report.to_offset)
        known = self._maps.get(place)
        return None if known is None else known.translate(offset)

    def _note_lag(self) -> None:
        now_s = time.monotonic()
        if now_s - self._lag_noted_s >= LAG_EVERY_S:
            self._lag_noted_s = now_s
            copied = sum(part.report.written for part in self._parts())
            self._note(f"{copied:,} records copied, {self._lag():,} offsets behind")

    def _note(self, line: str) -> None:
        if self._shown:
            note(line)

    def report(self) -> Report:
        """Return the report on what was copied and what was not."""
        report = Report("mirror", [part.report for part in (*self._finished, *self._parts())])
        for topic, why in self._gone.items():
            report.incomplete(f"topic {topic!r} was not copied to its end: {why}")
        if self._stopped and self._lag():
            report.incomplete(f"it was stopped, {self._lag():,} offsets behind")
        report.details["verbatim"] = sorted({place.topic for place in self._planner.verbatim})
        report.details["renumbered"] = sorted({place.topic for place in self._planner.renumbered})
        report.details["lag"] = self._lag()
        if self.group_copies is not None:
            report.details["groups"] = as_json(self.group_copies.moved)
            report.notes += [f"group {one!r} is not copied: {why}" for one, why in self.group_copies.left_alone.items()]
        return report


def _due(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if part.is_due]
