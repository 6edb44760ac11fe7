"""Which topics and partitions a data directory has: what the metadata log in it says.

A directory without that log, as a copy of some partitions is, has what the names of its directories say.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from odradek.partitions.model import PartitionKey
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.store import LogView, SegmentGoneError, logs_in, partition_dir_name
from odradek.wire.records.batch import check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import read_records
from odradek.wire.stored.framing import decode_metadata_record
from odradek.wire.stored.metadata_records import PartitionRecord, RemoveTopicRecord, TopicRecord

METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({METADATA_TOPIC, "__consumer_offsets", "__transaction_state"})
"""Topics that a pattern never means, as with Kafka's clients."""


@dataclass(frozen=True)
class Topic:
    """A topic: the directory of each partition. A partition that was never used has a name, and no directory yet."""

    name: str
    directories: Mapping[int, Path]


class Catalog:
    """The topics of one data directory. `topics` reads what the metadata log has got since the last call."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._position = 0
        self._names: dict[UUID, str] = {}
        self._partitions: dict[UUID, set[int]] = defaultdict(set)
        self._metadata_log: Path | None = None

    def topics(self) -> dict[str, Topic]:
        """Return the topics by name. Raises StoreError, PipelineError."""
        logs = logs_in(self._root)
        self._metadata_log = next((path for key, path in logs.items() if key.topic == METADATA_TOPIC), None)
        if self._metadata_log is None:
            return _by_directories(logs)
        self._read_on(self._metadata_log)
        return {name: self._topic(topic_id, name) for topic_id, name in self._names.items()}

    def _topic(self, topic_id: UUID, name: str) -> Topic:
        keys = [PartitionKey(name, topic_id, index) for index in sorted(self._partitions[topic_id])]
        return Topic(name, {key.index: self._root / partition_dir_name(key) for key in keys})

    def _read_on(self, directory: Path) -> None:
        try:
            for record in self._records(directory):
                self._apply(record)
        except SegmentGoneError:
            self._read_on(directory)
        except (InvalidRecordBatch, ValueError) as error:
            raise PipelineError(f"the metadata log {directory} cannot be read: {error}") from error

    def _records(self, directory: Path) -> Iterator[bytes]:
        with LogView.open(directory) as view:
            position = max(self._position, view.log_start_offset)
            for last_offset, value in view.values(position, view.log_end_offset):
                for header in iter_headers(value):
                    if header.base_offset >= position and not header.is_control:
                        check_crc(value, header)
                        yield from [record.value for record in read_records(value, header) if record.value is not None]
                self._position = last_offset + 1

    def _apply(self, value: bytes) -> None:
        record, _ = decode_metadata_record(value)
        if isinstance(record, TopicRecord):
            self._names[record.topic_id] = record.name
        elif isinstance(record, PartitionRecord):
            self._partitions[record.topic_id].add(record.partition_id)
        elif isinstance(record, RemoveTopicRecord):
            self._names.pop(record.topic_id, None)
            self._partitions.pop(record.topic_id, None)


def _by_directories(logs: Mapping[PartitionKey, Path]) -> dict[str, Topic]:
    found: dict[str, dict[int, Path]] = defaultdict(dict)
    for key, directory in sorted(logs.items()):
        other = found[key.topic].setdefault(key.index, directory)
        if other != directory:
            raise PipelineError(f"{other} and {directory} are both {key}, and there is no metadata log to say which is")
    return {name: Topic(name, directories) for name, directories in found.items()}
