"""Metadata records as a shard's records, in Kafka's framing, and the records of parts of an image."""

from collections.abc import Iterable
from typing import Final

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.metadata.image.image import PartitionImage, QuotaEntity, TopicImage
from odradek.coordinator.metadata.image.replay import CLUSTER_ID, CLUSTER_RESOURCE
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_metadata_record, encode_metadata_record
from odradek.wire.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

NO_KEY: Final = b""
"""Metadata records have no key: Kafka's metadata log is not compacted."""

_VERSIONS: Final[dict[type[Message], int]] = {
    RegisterBrokerRecord: 3,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
    BrokerRegistrationChangeRecord: 2,
}
"""The version that is written; 0 for all other records."""


def to_shard_records(messages: Iterable[Message]) -> list[ShardRecord]:
    """Encode records for the log; each keeps its message, so that replay need not decode it again."""
    return [
        ShardRecord(NO_KEY, encode_metadata_record(message, _VERSIONS.get(type(message), 0)), decoded=message)
        for message in messages
    ]


def from_shard_record(record: ShardRecord) -> Message | None:
    """Returns the metadata record, or None for a tombstone. Raises ProtocolError for a record of a newer version."""
    if isinstance(record.decoded, Message):
        return record.decoded
    return None if record.value is None else decode_metadata_record(record.value)[0]


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """Returns the record that sets a quota, or with None removes it."""
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def cluster_id_record(cluster_id: str) -> ConfigRecord:
    """Returns the record with the cluster's id."""
    return ConfigRecord(resource_type=CLUSTER_RESOURCE, resource_name="", name=CLUSTER_ID, value=cluster_id)


def partition_record(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionRecord:
    """Returns the record of a partition's whole state."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )
