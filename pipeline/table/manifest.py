"""The values of a table's log: an entry is the change of one step, and a table is the state after all entries."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self

from odradek.pipeline.topic_partition import TopicPartition

VERSION: Final = 1
Role = Literal["archive", "compact"]
Kind = Literal["create", "claim", "batch", "compact"]


@dataclass(frozen=True, slots=True)
class Span:
    """A file's records of a partition: `records` records with offsets from `first` to `last`, both included."""

    topic: str
    partition: int
    first: int
    last: int
    records: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file. `path` is relative to the table (or to its dead letters), `schema` an index of its schemas."""

    path: str
    records: int
    size_bytes: int
    schema: int
    spans: tuple[Span, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Convert a result of `asdict` back."""
        given: dict[str, Any] = dict(value)
        given["spans"] = tuple(Span(**span) for span in value["spans"])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """One batch's offsets of a partition, from `start` up to, but excluding, `end`. `read` records were read, of which
    `written` were written to the table. `skipped` counts all other offsets by reason: "dead letter", "transaction
    marker", "aborted", "compacted", "lost to retention", "unexplained" and so on.
    """

    topic: str
    partition: int
    start: int
    end: int
    read: int = 0
    written: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the log: file `number` of `_odradek/log`."""

    number: int
    kind: Kind
    role: Role
    writer: str
    at_ms: int
    staging: str = ""
    ranges: tuple[OffsetRange, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    files: tuple[DataFile, ...] = ()
    dead_letters: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    version: int = VERSION

    def to_text(self) -> str:
        """The file's text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse the file's text; raises ValueError for an unsupported version."""
        value: dict[str, Any] = json.loads(text)
        if value["version"] > VERSION:
            raise ValueError(f"the log's version is {value['version']}; this Odradek knows {VERSION}")
        value["ranges"] = tuple(OffsetRange(**one) for one in value["ranges"])
        value["files"] = tuple(map(DataFile.from_json, value["files"]))
        value["dead_letters"] = tuple(map(DataFile.from_json, value["dead_letters"]))
        value["removed"] = tuple(value["removed"])
        return cls(**value)


@dataclass(slots=True)
class Progress:
    """One partition's archived offsets: from `start` up to, but excluding, `end`, with counts of records and skipped
    offsets.
    """

    start: int
    end: int
    read: int = 0
    written: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Table:
    """The state of the table after entry `number`. Only changed by `apply`."""

    number: int = -1
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    schemas: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The schemas of the table's files in Spark's JSON form; the last is the table's."""
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    progress: dict[TopicPartition, Progress] = field(default_factory=dict[TopicPartition, Progress])
    files: dict[str, DataFile] = field(default_factory=dict[str, DataFile])
    dead_letters: dict[str, DataFile] = field(default_factory=dict[str, DataFile])
    writers: dict[str, str] = field(default_factory=dict[str, str])
    """The writer of each role: the last one that claimed it."""

    @property
    def topics(self) -> list[str]:
        """Return the archived topics."""
        return sorted({place.topic for place in self.progress})

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset to archive of each partition."""
        return {place: one.end for place, one in self.progress.items()}

    @property
    def records(self) -> int:
        """Return the number of records in the table."""
        return sum(file.records for file in self.files.values())

    def apply(self, entry: Entry) -> None:
        """Apply the entry."""
        assert entry.number == self.number + 1, (entry.number, self.number)
        self.number = entry.number
        self.settings |= entry.settings or {}
        self.topic_ids |= entry.topic_ids
        if entry.schema is not None:
            self.schemas.append(dict(entry.schema))
        if entry.kind in {"create", "claim"}:
            self.writers[entry.role] = entry.writer
        for path in entry.removed:
            del self.files[path]
        self.files |= {file.path: file for file in entry.files}
        self.dead_letters |= {file.path: file for file in entry.dead_letters}
        for one in entry.ranges:
            self._advance(one)

    def _advance(self, one: OffsetRange) -> None:
        place = TopicPartition(one.topic, one.partition)
        progress = self.progress.setdefault(place, Progress(one.start, one.start))
        assert one.start == progress.end, (one, progress)
        progress.end = one.end
        progress.read += one.read
        progress.written += one.written
        progress.skipped.update(one.skipped)

    def to_text(self) -> str:
        """Return the text of a snapshot."""
        value = {name: getattr(self, name) for name in ("number", "settings", "schemas", "topic_ids", "writers")}
        value["progress"] = [[*place, asdict(one)] for place, one in self.progress.items()]
        value["files"] = [asdict(file) for file in self.files.values()]
        value["dead_letters"] = [asdict(file) for file in self.dead_letters.values()]
        return json.dumps(value)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a snapshot."""
        value = json.loads(text)
        for name in ("files", "dead_letters"):
            value[name] = {file.path: file for file in map(DataFile.from_json, value[name])}
        value["progress"] = {
            TopicPartition(topic, partition): _progress(one) for topic, partition, one in value["progress"]
        }
        return cls(**value)


def _progress(value: dict[str, Any]) -> Progress:
    skipped: Counter[str] = Counter(value.pop("skipped"))
    return Progress(**value, skipped=skipped)
