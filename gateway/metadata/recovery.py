"""Rebuilds a lost metadata log from the names, topic ids and indexes of the partitions' directories.

For `odradek recover` in a cluster of one; the command has exclusive use of the store, and everything here blocks. What
the directories do not contain is taken from the readable part of the old metadata log; without one it is chosen so that
nothing is lost:

- A topic's settings are unknown: `retention.ms` and `retention.bytes` become -1, so that no segment is deleted before
  an operator has checked. Internal topics get the settings that their coordinators give them.
- Partitions that were never used have no directory: the count is what the highest index implies, or what the caller
  gives; internal topics have at least as many as the broker would give them.
- Allocated producer ids must not be allocated again: the next one is far above the highest in any log.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Final
from uuid import UUID

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.metadata.controller.auto_create import wanted_topic
from odradek.coordinator.metadata.controller.brokers import cluster_records
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import from_shard_record, to_shard_records
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.image.snapshot import snapshot_records
from odradek.coordinator.metadata.settings import CurrentLayers, DecisionContext, MetadataConfig
from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.coordinator.quorum.voter_records import voters_in
from odradek.coordinator.quorum.voters import KRAFT_VERSION, VoterSet
from odradek.gateway.config import NodeConfig
from odradek.gateway.metadata.metadata_log import METADATA_LEADER_EPOCH, METADATA_MAX_BATCH_BYTES
from odradek.gateway.metadata.node_id import stored_node_id
from odradek.gateway.metadata.other_nodes import signs_of_others
from odradek.gateway.quorum.snapshots import PROPERTY as SNAPSHOTS
from odradek.gateway.quorum.snapshots import find_snapshots, read_snapshot, read_voters
from odradek.gateway.quorum.stored import FORGOTTEN, IN_LOG
from odradek.gateway.replication.policy import policy_of
from odradek.partitions.config import LogConfig
from odradek.partitions.leader import lead
from odradek.partitions.metadata_log import METADATA_KEY, snapshot_of
from odradek.partitions.model import LogSnapshot, PartitionKey
from odradek.partitions.results import Appended, AppendOrigin
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import PartitionStore, Store, StoreError, StrayLog
from odradek.wire.errors import ProtocolError
from odradek.wire.records.batch import check_crc, iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.records.reader import read_control_markers, read_records
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from odradek.wire.values import immutable, mutable

PRODUCER_ID_LEAP: Final = 1_000_000_000
"""The distance of the next producer id from the highest in any log, since not every allocated id is in a log."""
KEEP_EVERYTHING: Final[Mapping[str, str]] = {"retention.bytes": "-1", "retention.ms": "-1"}
"""The settings of a topic whose own settings are unknown."""
_LOG_CONFIG: Final = LogConfig(max_message_bytes=METADATA_MAX_BATCH_BYTES)
_AS_THEY_ARE: Final[Mapping[str, str]] = {}

_READ_BYTES: Final = 1024 * 1024
_RECORDS_PER_BATCH: Final = 1000


class RecoveryError(Exception):
    """The recovery is not possible; the message has the reason and the alternative."""


@immutable
class Found:
    """The contents of a store.

    `damage` describes the defect of the metadata log, `metadata` is the readable part of it, and `voters` the last set
    in that part, None if there is none.
    """

    metadata: MetadataDelta
    voters: VoterSet | None
    damage: str
    logs: Sequence[PartitionKey]
    strays: Sequence[StrayLog]

    @property
    def image(self) -> MetadataImage:
        """The image of the readable part of the metadata log."""
        return self.metadata.apply()


@immutable
class Adoption:
    """A topic to add to the metadata: the number of its partitions, and which of them have a log."""

    name: str
    topic_id: UUID
    partitions: int
    present: Sequence[int]
    configs: Mapping[str, str]
    is_new: bool


@mutable
class Plan:
    """The topics to add to the metadata.

    The logs in `left` are not adopted: their topics were deleted, or another topic has the name.
    """

    adoptions: list[Adoption] = field(default_factory=list[Adoption])
    left: list[PartitionKey] = field(default_factory=list[PartitionKey])


def look(store: Store) -> Found:
    """Examine the logs of a store. Raises StoreError, and RecoveryError for a log that a newer version wrote."""
    readable = _newest_snapshot(store)
    delta = readable.delta
    logs = [key for key in store.partitions() if key.topic != METADATA_KEY.topic]
    strays = store.strays()
    missing = "there is none" if logs or strays or delta.offset >= 0 else ""
    damage = _read_metadata(store, readable) if store.holds(METADATA_KEY) else missing
    if not damage and not delta.apply().cluster_id and logs:
        damage = "it is empty"
    if not damage and readable.voters is None and store.properties().get(KRAFT_VERSION) == IN_LOG:
        damage = "it lacks the voters of its quorum, which it had"
    return Found(delta, readable.voters, damage, logs, strays)


def others_of(found: Found, store: Store, node: NodeConfig, machine: str) -> str:
    """Return what shows that the store is that of one of several nodes; empty if nothing does.

    `machine` is the host name of a listener on all interfaces. Raises StoreError.
    """
    properties = store.properties()
    voters = () if found.voters is None else found.voters.directories
    others = {*found.image.brokers, *voters} - {stored_node_id(properties, node.node_id)}
    if others:
        return f"its metadata names other nodes: {', '.join(map(str, sorted(others)))}"
    return signs_of_others(properties, node, machine)


@mutable
class _Readable:
    """The readable part of the metadata log: its records, and the last voter set."""

    delta: MetadataDelta
    voters: VoterSet | None = None


def _newest_snapshot(store: Store) -> _Readable:
    """The contents of the newest complete snapshot; empty without one. Raises StoreError, RecoveryError."""
    try:
        newest = max(find_snapshots(store), default=None)
        if newest is None:
            return _Readable(MetadataDelta())
        reader = read_snapshot(store, newest)
        reader.image(*newest)
        return _Readable(reader.delta, read_voters(store, newest))
    except ProtocolError as error:
        raise RecoveryError(f"a newer version wrote a snapshot of the metadata ({error}): use that version") from error


def _read_metadata(store: Store, readable: _Readable) -> str:
    """Apply the readable beginning of the metadata log; return the defect of the rest, empty if there is none."""
    part: PartitionStore | None = None
    delta = readable.delta
    try:
        part = store.open(METADATA_KEY, policy_of(_LOG_CONFIG))
        next_offset = delta.offset + 1
        start = part.load().log_start_offset
        if start > next_offset:
            return f"it begins at {start}, and the snapshot of what was before is missing"
        for message, offset, epoch in _messages(part):
            if isinstance(message, VoterSet):
                readable.voters = message
            elif offset >= next_offset:
                replay(delta, message, offset, epoch)
    except (StoreError, InvalidRecordBatch, LookupError) as error:
        return str(error)
    except ProtocolError as error:
        raise RecoveryError(f"a newer version wrote the metadata log ({error}): use that version") from error
    finally:
        if part is not None:
            with suppress(StoreError):
                part.close()
    return ""


def _messages(part: PartitionStore) -> Iterator[tuple[Message | VoterSet, int, int]]:
    """The metadata log's records and voter sets from its beginning, with their offsets and leader epochs.

    Raises StoreError, InvalidRecordBatch, ProtocolError.
    """
    snapshot = part.load()
    offset, end = snapshot.log_start_offset, snapshot.log_end_offset
    while offset < end:
        lease = part.read(offset, end, _READ_BYTES)
        chunks = [bytes(chunk) for chunk in lease.chunks]
        lease.release()
        for chunk in chunks:
            for header in iter_headers(chunk):
                check_crc(chunk, header)
                if header.is_control:
                    for at in voters_in(read_control_markers(chunk, header)):
                        yield at.voters, at.offset, header.partition_leader_epoch
                for record in () if header.is_control else read_records(chunk, header):
                    message = from_shard_record(ShardRecord(record.key or b"", record.value))
                    if message is not None:
                        yield message, record.offset, header.partition_leader_epoch
                offset = header.next_offset


def plan(found: Found, config: MetadataConfig, counts: Mapping[str, int]) -> Plan:
    """Decide which topics to add for the logs; `counts` has the partition counts that the caller gives."""
    planned = Plan()
    indexes: dict[tuple[str, UUID], list[int]] = defaultdict(list)
    for key in found.logs:
        indexes[key.topic, key.topic_id].append(key.index)
    chosen: dict[str, UUID] = {topic.name: topic.topic_id for topic in found.image.topics_by_id.values()}
    for name, topic_id in sorted(indexes, key=lambda each: (each[0], -len(indexes[each]), each[1])):
        present = sorted(indexes[name, topic_id])
        if topic_id not in found.metadata.topics.deleted and chosen.setdefault(name, topic_id) == topic_id:
            planned.adoptions.append(_adoption(found.image, config, (name, topic_id), present, counts))
        else:
            planned.left += [PartitionKey(name, topic_id, index) for index in present]
    return planned


def _adoption(
    image: MetadataImage,
    config: MetadataConfig,
    topic: tuple[str, UUID],
    present: Sequence[int],
    counts: Mapping[str, int],
) -> Adoption:
    name, topic_id = topic
    known = image.topic_by_id(topic_id)
    least, configs = _unknown(image, config, name) if known is None else (len(known.partitions), _AS_THEY_ARE)
    partitions = max(counts.get(name, least), present[-1] + 1)
    return Adoption(name, topic_id, partitions, present, configs, is_new=known is None)


def _unknown(image: MetadataImage, config: MetadataConfig, name: str) -> tuple[int, Mapping[str, str]]:
    """The minimum number of partitions and the settings of a topic of which only the name is known."""
    if name not in INTERNAL_TOPICS:
        return 1, KEEP_EVERYTHING
    wanted = wanted_topic(DecisionContext(image, CurrentLayers(config).under(image), config.node_id), name)
    return wanted.num_partitions, {each.name: each.value for each in wanted.configs if each.value is not None}


def adoption_of(found: Found, name: str, config: MetadataConfig, counts: Mapping[str, int]) -> Adoption:
    """Plan the adoption of a topic that was set aside, by its name or one of its directories'. Raises RecoveryError."""
    topics = {
        (stray.key.topic, stray.key.topic_id)
        for stray in found.strays
        if name in (stray.name, stray.key.topic) and stray.key.topic != METADATA_KEY.topic
    }
    if len(topics) != 1:
        names = ", ".join(stray.name for stray in found.strays) or "none"
        raise RecoveryError(
            f"{name!r} names {len(topics) or 'no'} topics that were set aside; name one of the directories: {names}"
        )
    [topic] = topics
    if found.image.topic(topic[0]) is not None:
        raise RecoveryError(f"there is a topic {topic[0]!r} already: delete it first, or leave the directories aside")
    present = sorted({stray.key.index for stray in found.strays if (stray.key.topic, stray.key.topic_id) == topic})
    return _adoption(found.image, config, topic, present, counts)


def rebuild(store: Store, found: Found, planned: Plan, config: MetadataConfig, cluster_id: str, now_ms: int) -> str:
    """Rebuild the metadata log; the remains of the old one are set aside, under the name that is returned.

    A cluster whose id is lost gets `cluster_id`. The new log has no voters: it is that of a cluster of one, from which
    a controller can found a quorum again. Raises StoreError.
    """
    recovered = _Recording(found.image)
    if not found.image.cluster_id:
        recovered.add(*cluster_records(found.image, cluster_id))
    snapshots = {key: _snapshot(store, key) for key in found.logs}
    for adoption in planned.adoptions:
        _adopt(recovered, adoption, config.node_id, snapshots)
    highest = max([found.image.next_producer_id, *(each for log in snapshots.values() for each in log.producers)])
    recovered.add(
        ProducerIdsRecord(broker_id=config.node_id, broker_epoch=-1, next_producer_id=highest + PRODUCER_ID_LEAP)
    )
    store.set_properties({SNAPSHOTS: "[]", **FORGOTTEN})
    aside = store.set_aside(METADATA_KEY) if store.holds(METADATA_KEY) else ""
    for key in [each for each in store.partitions() if snapshot_of(each) is not None]:
        store.set_aside(key)
    _append(store, list(snapshot_records(recovered.image)), now_ms)
    return aside


def adopt(store: Store, found: Found, adoption: Adoption, config: MetadataConfig, now_ms: int) -> None:
    """Add a topic that was set aside to an intact metadata log, and take its logs back. Raises StoreError."""
    names = {each.key.index: each.name for each in found.strays if each.key.topic_id == adoption.topic_id}
    for name in names.values():
        store.take_back(name)
    keys = [PartitionKey(adoption.name, adoption.topic_id, index) for index in adoption.present]
    recovered = _Recording(found.image)
    _adopt(recovered, adoption, config.node_id, {key: _snapshot(store, key) for key in keys})
    _append(store, recovered.messages, now_ms)


class _Recording:
    """Records on top of an image, and the image that results."""

    def __init__(self, image: MetadataImage) -> None:
        self.messages: list[Message] = []
        self._delta = MetadataDelta(image)

    @property
    def image(self) -> MetadataImage:
        """The image after all records."""
        return self._delta.apply()

    def add(self, *messages: Message) -> None:
        """Append records."""
        for message in messages:
            self.messages.append(message)
            replay(self._delta, message, self._delta.offset + 1, METADATA_LEADER_EPOCH)


def _snapshot(store: Store, key: PartitionKey) -> LogSnapshot:
    """A log's state without its records; empty if it cannot be read, which does not prevent the topic's adoption."""
    try:
        part = store.open(key, policy_of(_LOG_CONFIG))
        try:
            return part.load()
        finally:
            part.close()
    except StoreError:
        return LogSnapshot()


def _adopt(
    recovered: _Recording, adoption: Adoption, node_id: int, snapshots: Mapping[PartitionKey, LogSnapshot]
) -> None:
    """Add the records of the topic and its partitions, with the leader epochs that their logs have reached."""
    if adoption.is_new:
        recovered.add(TopicRecord(name=adoption.name, topic_id=adoption.topic_id))
        for name, value in adoption.configs.items():
            resource = ResourceType.TOPIC
            recovered.add(ConfigRecord(resource_type=resource, resource_name=adoption.name, name=name, value=value))
    known = recovered.image.topics_by_id[adoption.topic_id].partitions
    for index in range(adoption.partitions):
        snapshot = snapshots.get(PartitionKey(adoption.name, adoption.topic_id, index))
        epoch = max([each.leader_epoch for each in snapshot.epochs], default=0) if snapshot is not None else 0
        if index >= len(known) or known[index].leader_epoch < epoch:
            recovered.add(_partition_record(adoption.topic_id, index, node_id, epoch))


def _partition_record(topic_id: UUID, index: int, node_id: int, epoch: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=(node_id,),
        isr=(node_id,),
        leader=node_id,
        leader_epoch=epoch,
        partition_epoch=0,
    )


def _append(store: Store, messages: Sequence[Message], now_ms: int) -> None:
    """Write records to the end of the metadata log, all or none of them."""
    part = store.open(METADATA_KEY, policy_of(_LOG_CONFIG))
    try:
        state = PartitionState.restore(part.load(), _LOG_CONFIG)
        leader, epoch_write = lead(state, max(state.leader_epoch + 1, METADATA_LEADER_EPOCH))
        writes = [] if epoch_write is None else [epoch_write]
        records = [SimpleRecord(None, record.value, now_ms) for record in to_shard_records(messages)]
        for start in range(0, len(records), _RECORDS_PER_BATCH):
            batch = build_batch(records[start : start + _RECORDS_PER_BATCH])
            result = leader.append(memoryview(batch), origin=AppendOrigin.COORDINATOR, now_ms=now_ms)
            assert isinstance(result, Appended), f"our own batch was refused: {result}"
            writes.append(result.write)
        part.commit(writes, sync=True)
    finally:
        part.close()
