"""A whole image as metadata records."""

from collections.abc import Iterator

from odradek.coordinator.metadata.image.image import BrokerImage, ControllerImage, MetadataImage
from odradek.coordinator.metadata.image.records import cluster_id_record, partition_record, quota_record
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)


def snapshot_records(image: MetadataImage) -> Iterator[Message]:
    """Yield records that rebuild `image`, except its offset and epoch, when replayed into an empty image."""
    if image.cluster_id:
        yield cluster_id_record(image.cluster_id)
    for name, level in image.features.finalized.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for controller in image.controllers.values():
        yield _controller_record(controller)
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


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in broker.listeners.values()
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=tuple(
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in controller.listeners.values()
        ),
        features=tuple(
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ),
    )
