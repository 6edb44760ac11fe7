"""The topics and partitions of a store, as read from its metadata log.

A store without that log, such as a copy of some partitions' directories, has the topics that its logs are named after.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from odradek.coordinator.configs.definition import ResourceType
from odradek.gateway.beside.committed import LOOKS
from odradek.partitions.metadata_log import METADATA_KEY, METADATA_TOPIC, snapshot_of
from odradek.partitions.model import PartitionKey
from odradek.storage_backends.beside import LogGoneError, LogsBeside, SegmentGoneError
from odradek.storage_backends.interface import StoreCorruptError, StoreError
from odradek.wire.records.batch import check_crc, iter_headers
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import ControlType, read_control_marker, read_records
from odradek.wire.stored.framing import decode_metadata_record
from odradek.wire.stored.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

INTERNAL_TOPICS: Final = frozenset({METADATA_TOPIC, "__consumer_offsets", "__transaction_state"})
"""Topics that a pattern never matches, as in Kafka's clients."""

Topic = Mapping[int, PartitionKey]
"""The partitions of a topic by number. A partition without records has a key, but may have no log yet."""


class Catalog:
    """The topics of one store. `topics` reads what was appended to the metadata log since the last call."""

    def __init__(self, logs: LogsBeside) -> None:
        self._logs = logs
        self._position = 0
        self._names: dict[UUID, str] = {}
        self._partitions: dict[UUID, set[int]] = defaultdict(set)
        self._settings: dict[str, dict[str, str]] = defaultdict(dict)

    def topics(self) -> dict[str, Topic]:
        """Return the topics by name. Raises StoreError."""
        keys = self._logs.keys()
        if METADATA_KEY not in keys:
            return _by_logs([key for key in keys if snapshot_of(key) is None])
        self._read_on()
        return {name: self._topic(topic_id, name) for topic_id, name in self._names.items()}

    def settings(self, topic: str) -> Mapping[str, str]:
        """The settings that are set for the topic itself, as of the last call of `topics`."""
        return self._settings.get(topic, {})

    def _topic(self, topic_id: UUID, name: str) -> Topic:
        return {index: PartitionKey(name, topic_id, index) for index in sorted(self._partitions[topic_id])}

    def _read_on(self) -> None:
        for left in reversed(range(LOOKS)):
            try:
                self._read_once()
            except (SegmentGoneError, LogGoneError):
                if not left:
                    raise  # missing, not replaced by a newer one
            else:
                return

    def _read_once(self) -> None:
        try:
            with self._logs.look(METADATA_KEY) as view:
                start = view.log_start_offset
            if start > self._position:
                self._load_snapshot(start)
            for record in self._records(METADATA_KEY):
                self._apply(record)
        except (InvalidRecordBatch, ValueError) as error:
            raise StoreCorruptError(f"the metadata log cannot be read: {error}") from error

    def _load_snapshot(self, start: int) -> None:
        """Reload from the newest complete snapshot: the log starts at `start`, after the position read so far."""
        keys = {found: key for key in self._logs.keys() if (found := snapshot_of(key)) is not None}  # noqa: SIM118
        for (end_offset, _), key in sorted(keys.items(), reverse=True):
            records = self._snapshot(key) if end_offset >= start else None
            if records is not None:
                self._names.clear()
                self._partitions.clear()
                self._settings.clear()
                for record in records:
                    self._apply(record)
                self._position = end_offset
                return
        raise StoreCorruptError(f"the metadata log begins at {start}, and no snapshot has what was before")

    def _snapshot(self, key: PartitionKey) -> list[bytes] | None:
        """The records of a snapshot; None if it is incomplete."""
        records: list[bytes] = []
        is_whole = False
        with self._logs.look(key) as view:
            for _, value in view.values(view.log_start_offset, view.log_end_offset):
                for header in iter_headers(value):
                    check_crc(value, header)
                    if header.is_control:
                        is_whole = read_control_marker(value, header).type is ControlType.SNAPSHOT_FOOTER
                    else:
                        records += [each.value for each in read_records(value, header) if each.value is not None]
        return records if is_whole else None

    def _records(self, metadata_log: PartitionKey) -> Iterator[bytes]:
        with self._logs.look(metadata_log) as view:
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
            self._settings.pop(self._names.pop(record.topic_id, ""), None)
            self._partitions.pop(record.topic_id, None)
        elif isinstance(record, ConfigRecord) and record.resource_type == ResourceType.TOPIC:
            self._set(record)

    def _set(self, record: ConfigRecord) -> None:
        settings = self._settings[record.resource_name]
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value


def _by_logs(keys: Sequence[PartitionKey]) -> dict[str, Topic]:
    found: dict[str, dict[int, PartitionKey]] = defaultdict(dict)
    for key in keys:
        other = found[key.topic].setdefault(key.index, key)
        if other != key:
            raise StoreError(
                f"there are two logs of {key}, with topic ids {other.topic_id} and {key.topic_id}, and no metadata log "
                "to say which is the topic's"
            )
    return dict(found)
