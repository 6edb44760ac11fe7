"""Replay of metadata records into a delta: the only code that changes metadata."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import (
    BrokerImage,
    ControllerImage,
    FeaturesImage,
    ListenerImage,
    PartitionImage,
    ScramCredential,
    TopicImage,
)
from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

CLUSTER_RESOURCE: Final = 127
"""Our own resource type, for configs of the cluster as a whole; no config API accepts it."""
CLUSTER_ID: Final = "cluster.id"
"""The metadata log has a copy of the cluster's id, in case the store's properties are lost."""

_LEADER_UNCHANGED: Final = -2
_STATE_UNCHANGED: Final = -1


def replay(delta: MetadataDelta, record: Message, offset: int, epoch: int) -> None:
    """Apply the record at `offset`, of the leader's `epoch`; unknown types of records only advance offset and epoch.

    Raises LookupError for a record about a topic, partition or broker that does not exist.
    """
    handler = _HANDLERS.get(type(record))
    if handler is not None:
        handler(delta, record)
    delta.advance(offset, epoch)


def _topic(delta: MetadataDelta, record: TopicRecord) -> None:
    """Create a topic, without partitions yet."""
    delta.topics.create(TopicImage(record.name, record.topic_id, record.name in INTERNAL_TOPICS))


def _partition(delta: MetadataDelta, record: PartitionRecord) -> None:
    """Add a partition, or replace its whole state."""
    partition = PartitionImage(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        elr=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader_recovery_state=record.leader_recovery_state,
        directories=record.directories,
    )
    delta.topics.set_partition(record.topic_id, record.partition_id, partition)


def _partition_change(delta: MetadataDelta, record: PartitionChangeRecord) -> None:
    """Change a partition."""
    before = delta.topics.partition(record.topic_id, record.partition_id)
    delta.elections.count(before, record)
    delta.topics.set_partition(record.topic_id, record.partition_id, changed_partition(before, record))


def changed_partition(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """Returns the changed partition. Its epoch always grows, the leader epoch if the record has a leader."""
    led = record.leader != _LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=_changed(record.replicas, before.replicas),
        isr=_changed(record.isr, before.isr),
        leader=record.leader if led else before.leader,
        leader_epoch=before.leader_epoch + led,
        partition_epoch=before.partition_epoch + 1,
        adding_replicas=_changed(record.adding_replicas, before.adding_replicas),
        removing_replicas=_changed(record.removing_replicas, before.removing_replicas),
        elr=_changed(record.eligible_leader_replicas, before.elr),
        last_known_elr=_changed(record.last_known_elr, before.last_known_elr),
        leader_recovery_state=before.leader_recovery_state if recovery == _STATE_UNCHANGED else recovery,
        directories=_changed(record.directories, before.directories),
    )


def _changed(new: tuple[Any, ...] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
    return old if new is None else new


def _remove_topic(delta: MetadataDelta, record: RemoveTopicRecord) -> None:
    """Remove a topic and its configs."""
    name = delta.topics.delete(record.topic_id)
    delta.configs.remove((ResourceType.TOPIC, name))


def _config(delta: MetadataDelta, record: ConfigRecord) -> None:
    """Set a config of a resource, or remove it if None."""
    if record.resource_type == CLUSTER_RESOURCE:
        if record.name == CLUSTER_ID:
            delta.cluster_id = record.value or ""
        return
    key = (record.resource_type, record.resource_name)
    texts = dict(delta.configs.get(key) or {})
    if record.value is None:
        texts.pop(record.name, None)
    else:
        texts[record.name] = record.value
    if texts:
        delta.configs.set(key, texts)
    else:
        delta.configs.remove(key)


def _client_quota(delta: MetadataDelta, record: ClientQuotaRecord) -> None:
    """Set or remove a quota."""
    entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    left = {key: value for key, value in (delta.quotas.get(entity) or {}).items() if key != record.key}
    quotas = left if record.remove else {**left, record.key: record.value}
    if quotas:
        delta.quotas.set(entity, quotas)
    else:
        delta.quotas.remove(entity)


def _scram_credential(delta: MetadataDelta, record: UserScramCredentialRecord) -> None:
    """Set a user's credential for a mechanism."""
    credential = ScramCredential(
        record.iterations, bytes(record.salt), bytes(record.stored_key), bytes(record.server_key)
    )
    delta.scram.set((record.name, record.mechanism), credential)


def _remove_scram_credential(delta: MetadataDelta, record: RemoveUserScramCredentialRecord) -> None:
    """Remove a user's credential for a mechanism."""
    delta.scram.remove((record.name, record.mechanism))


def _feature(delta: MetadataDelta, record: FeatureLevelRecord) -> None:
    """Set a feature's finalized level; level 0 removes it."""
    finalized = {**delta.features.finalized, record.name: record.feature_level}
    if record.feature_level == 0:
        del finalized[record.name]
    delta.features = FeaturesImage(delta.features.supported, finalized)


def _producer_ids(delta: MetadataDelta, record: ProducerIdsRecord) -> None:
    """Record that a block of producer ids was allocated to a broker."""
    delta.next_producer_id = record.next_producer_id


def _register_broker(delta: MetadataDelta, record: RegisterBrokerRecord) -> None:
    """Register a broker."""
    broker = BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        features=_features(record.features),
        log_dirs=record.log_dirs,
    )
    delta.brokers.set(broker.id, broker)


def _register_controller(delta: MetadataDelta, record: RegisterControllerRecord) -> None:
    """Register a controller."""
    controller = ControllerImage(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        listeners=_listeners(record.end_points),
        features=_features(record.features),
    )
    delta.controllers.set(controller.id, controller)


def _listeners(end_points: Iterable[BrokerEndpoint | ControllerEndpoint]) -> dict[str, ListenerImage]:
    return {
        point.name: ListenerImage(point.name, point.host, point.port, point.security_protocol) for point in end_points
    }


def _features(features: Iterable[BrokerFeature | ControllerFeature]) -> dict[str, tuple[int, int]]:
    return {each.name: (each.min_supported_version, each.max_supported_version) for each in features}


def _unregister_broker(delta: MetadataDelta, record: UnregisterBrokerRecord) -> None:
    """Remove a broker's registration."""
    delta.brokers.remove(record.broker_id)


def _broker_change(delta: MetadataDelta, record: BrokerRegistrationChangeRecord) -> None:
    """Fence (1) or unfence (-1) a broker, or begin its controlled shutdown (1)."""
    before = _broker(delta, record.broker_id)
    after = replace(
        before,
        fenced=before.fenced if record.fenced == 0 else record.fenced > 0,
        in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown > 0,
        log_dirs=record.log_dirs or before.log_dirs,
    )
    delta.brokers.set(after.id, after)


def _fence_broker(delta: MetadataDelta, record: FenceBrokerRecord) -> None:
    """Fence a broker, in the record type of older versions."""
    delta.brokers.set(record.id, replace(_broker(delta, record.id), fenced=True))


def _unfence_broker(delta: MetadataDelta, record: UnfenceBrokerRecord) -> None:
    """Unfence a broker, in the record type of older versions."""
    delta.brokers.set(record.id, replace(_broker(delta, record.id), fenced=False))


def _broker(delta: MetadataDelta, broker_id: int) -> BrokerImage:
    broker = delta.brokers.get(broker_id)
    if broker is None:
        raise KeyError(broker_id)
    return broker


_HANDLERS: Final[Mapping[type[Message], Callable[[MetadataDelta, Any], None]]] = {
    TopicRecord: _topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
    RemoveTopicRecord: _remove_topic,
    ConfigRecord: _config,
    ClientQuotaRecord: _client_quota,
    UserScramCredentialRecord: _scram_credential,
    RemoveUserScramCredentialRecord: _remove_scram_credential,
    FeatureLevelRecord: _feature,
    ProducerIdsRecord: _producer_ids,
    RegisterBrokerRecord: _register_broker,
    RegisterControllerRecord: _register_controller,
    UnregisterBrokerRecord: _unregister_broker,
    BrokerRegistrationChangeRecord: _broker_change,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _unfence_broker,
}
