"""Metadata records as a shard's records, in Kafka's framing, and a whole image as records."""

from collections.abc import Iterable, Iterator
from typing import Final

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.metadata.image.image import BrokerImage, MetadataImage, PartitionImage, QuotaEntity, TopicImage
from odradek.coordinator.metadata.image.replay import CLUSTER_ID, CLUSTER_RESOURCE
from odradek.wire.schema.schema import Message
from odradek.wire.stored.framing import decode_metadata_record, encode_metadata_record
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

NO_KEY: Final = b""
"""Metadata records have no key: Kafka's metadata log is not compacted."""

_VERSIONS: Final[dict[type[Message], int]] = {
    RegisterBrokerRecord: 3,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
    BrokerRegistrationChangeRecord: 2,
}
"""The version that is written; 0 where there is no other."""


def to_shard_records(messages: Iterable[Message]) -> list[ShardRecord]:
    """Frame records for the log; each keeps the message, so that it is replayed without being decoded again."""
    return [
        ShardRecord(NO_KEY, encode_metadata_record(message, _VERSIONS.get(type(message), 0)), decoded=message)
        for message in messages
    ]


def from_shard_record(record: ShardRecord) -> Message | None:
    """The metadata record, or None for a tombstone. Raises ProtocolError for what a newer version wrote."""
    if isinstance(record.decoded, Message):
        return record.decoded
    return None if record.value is None else decode_metadata_record(record.value)[0]


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Records that build `image` (but for its record count and features epoch) on top of nothing: a snapshot."""
    if image.cluster_id:
        yield cluster_id_record(image.cluster_id)
    for name, level in image.features.finalized.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for topic in image.topics_by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index in range(len(topic.partitions)):
            yield partition_record(topic, index, topic.partitions[index])
    for (resource_type, resource_name), texts in image.configs.items():
        for name, text in texts.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=text)
    yield from _security_records(image)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _security_records(image: MetadataImage) -> Iterator[Message]:
    for entity, quotas in image.quotas.items():
        for key, value in quotas.items():
            yield quota_record(entity, key, value)
    for (name, mechanism), credential in image.scram.items():
        yield UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """The record that sets a quota, or with None removes it."""
    parts = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def cluster_id_record(cluster_id: str) -> ConfigRecord:
    """The record that gives the cluster its id."""
    return ConfigRecord(resource_type=CLUSTER_RESOURCE, resource_name="", name=CLUSTER_ID, value=cluster_id)


def partition_record(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionRecord:
    """The whole state of a partition."""
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


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.listeners.values()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
