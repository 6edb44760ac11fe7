"""Metadata records become an image: the only place where metadata changes.

The builder works on copies that it makes at the first change after an image was taken, and gathers changes of
partitions per topic, so that a topic with many partitions is put together once and not once per record.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.controller.names import INTERNAL_TOPICS, collision_key
from odradek.coordinator.metadata.image.image import (
    BrokerImage,
    ConfigKey,
    FeaturesImage,
    ListenerImage,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    TopicImage,
)
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

CLUSTER_RESOURCE: Final = 127
"""Our own resource type, for what belongs to the cluster as a whole; no config API accepts it."""
CLUSTER_ID: Final = "cluster.id"
"""Kafka keeps the cluster's id in a file beside each log; here it is a ConfigRecord, for a store need have no files."""

MAX_REMOVED: Final = 100_000
"""How many ids of removed topics are remembered, the newest ones; a log that is left of an older one is kept aside."""

_LEADER_UNCHANGED: Final = -2
_STATE_UNCHANGED: Final = -1


class ImageBuilder:
    """Applies records on top of an image."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self._image = image or MetadataImage()
        self._brokers: dict[int, BrokerImage] | None = None
        self._by_id: dict[UUID, TopicImage] | None = None
        self._by_name: dict[str, TopicImage] = {}
        self._colliding: dict[str, tuple[str, ...]] = {}
        self._configs: dict[ConfigKey, Mapping[str, str]] | None = None
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._scram: dict[ScramKey, ScramCredential] | None = None
        self._open: dict[UUID, dict[int, PartitionImage]] = {}
        self._record_count = self._image.record_count
        self._dirty = False
        self._removed: dict[UUID, None] = {}

    def was_removed(self, topic_id: UUID) -> bool:
        """Whether a record said that the topic was deleted; for the last MAX_REMOVED of them."""
        return topic_id in self._removed

    @property
    def image(self) -> MetadataImage:
        """The image after all records applied so far."""
        if self._dirty:
            self._take_image()
        return self._image

    @property
    def record_count(self) -> int:
        """How many records were applied since the log's beginning."""
        return self._record_count

    def apply(self, record: Message) -> None:
        """Apply one record; those that say nothing about what an image holds only count."""
        handler = _HANDLERS.get(type(record))
        self._record_count += 1
        self._dirty = True
        if handler is not None:
            handler(self, record)

    def _take_image(self) -> None:
        before = self._image
        partition_count = before.partition_count
        if self._by_id is not None:
            self._close_topics()
            partition_count = sum(len(topic.partitions) for topic in self._by_id.values())
        self._image = replace(
            before,
            brokers=before.brokers if self._brokers is None else self._brokers,
            topics_by_id=before.topics_by_id if self._by_id is None else self._by_id,
            topics_by_name=before.topics_by_name if self._by_id is None else self._by_name,
            colliding=before.colliding if self._by_id is None else self._colliding,
            configs=before.configs if self._configs is None else self._configs,
            quotas=before.quotas if self._quotas is None else self._quotas,
            scram=before.scram if self._scram is None else self._scram,
            partition_count=partition_count,
            record_count=self._record_count,
        )
        self._brokers = self._by_id = self._configs = self._quotas = self._scram = None
        self._dirty = False

    def _close_topics(self) -> None:
        topics = self._topics()
        for topic_id, partitions in self._open.items():
            topic = replace(topics[topic_id], partitions=tuple(partitions[index] for index in sorted(partitions)))
            topics[topic_id] = self._by_name[topic.name] = topic
        self._open.clear()

    # Copies, made at the first change

    def _topics(self) -> dict[UUID, TopicImage]:
        if self._by_id is None:
            self._by_id = dict(self._image.topics_by_id)
            self._by_name = dict(self._image.topics_by_name)
            self._colliding = dict(self._image.colliding)
        return self._by_id

    def _partitions(self, topic_id: UUID) -> dict[int, PartitionImage]:
        opened = self._open.get(topic_id)
        if opened is None:
            opened = self._open[topic_id] = dict(enumerate(self._topics()[topic_id].partitions))
        return opened

    def _registered(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._image.brokers)
        return self._brokers

    def _set_configs(self) -> dict[ConfigKey, Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._image.configs)
        return self._configs

    def _set_quotas(self) -> dict[QuotaEntity, Mapping[str, float]]:
        if self._quotas is None:
            self._quotas = dict(self._image.quotas)
        return self._quotas

    def _credentials(self) -> dict[ScramKey, ScramCredential]:
        if self._scram is None:
            self._scram = dict(self._image.scram)
        return self._scram

    # Records

    def topic(self, record: TopicRecord) -> None:
        """A topic, without partitions as yet."""
        topic = TopicImage(record.name, record.topic_id, record.name in INTERNAL_TOPICS)
        self._topics()[record.topic_id] = self._by_name[record.name] = topic
        key = collision_key(record.name)
        if key is not None:
            self._colliding[key] = (*self._colliding.get(key, ()), record.name)

    def partition(self, record: PartitionRecord) -> None:
        """A new partition, or the whole state of one."""
        self._partitions(record.topic_id)[record.partition_id] = PartitionImage(
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

    def partition_change(self, record: PartitionChangeRecord) -> None:
        """A change: the partition's epoch grows always, the leader's when there is a new leader."""
        partitions = self._partitions(record.topic_id)
        before = partitions[record.partition_id]
        led = record.leader != _LEADER_UNCHANGED
        recovery = record.leader_recovery_state
        partitions[record.partition_id] = PartitionImage(
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

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        """A topic goes, and its configs with it."""
        self._removed[record.topic_id] = None
        if len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]
        topic = self._topics().pop(record.topic_id)
        del self._by_name[topic.name]
        self._open.pop(record.topic_id, None)
        if (ResourceType.TOPIC, topic.name) in self._set_configs():
            del self._set_configs()[ResourceType.TOPIC, topic.name]
        key = collision_key(topic.name)
        if key is not None:
            left = tuple(name for name in self._colliding[key] if name != topic.name)
            self._colliding[key] = left
            if not left:
                del self._colliding[key]

    def config(self, record: ConfigRecord) -> None:
        """A config of a resource is set, or with None removed."""
        if record.resource_type == CLUSTER_RESOURCE:
            if record.name == CLUSTER_ID:
                self._image = replace(self._image, cluster_id=record.value or "")
            return
        configs = self._set_configs()
        key = (record.resource_type, record.resource_name)
        texts = dict(configs.get(key, {}))
        if record.value is None:
            texts.pop(record.name, None)
        else:
            texts[record.name] = record.value
        configs[key] = texts
        if not texts:
            del configs[key]

    def client_quota(self, record: ClientQuotaRecord) -> None:
        """A quota is set, or removed."""
        quotas = self._set_quotas()
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        left = {key: value for key, value in quotas.get(entity, {}).items() if key != record.key}
        quotas[entity] = left if record.remove else {**left, record.key: record.value}
        if not quotas[entity]:
            del quotas[entity]

    def scram_credential(self, record: UserScramCredentialRecord) -> None:
        """A user's password for a mechanism is new, or another."""
        self._credentials()[record.name, record.mechanism] = ScramCredential(
            record.iterations, bytes(record.salt), bytes(record.stored_key), bytes(record.server_key)
        )

    def remove_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        """A user can no longer log in with a mechanism."""
        self._credentials().pop((record.name, record.mechanism), None)

    def feature(self, record: FeatureLevelRecord) -> None:
        """A feature's level is in force from now on; level 0 takes it away."""
        finalized = {**self._image.features.finalized, record.name: record.feature_level}
        if record.feature_level == 0:
            del finalized[record.name]
        features = FeaturesImage(finalized=finalized, epoch=self._record_count)
        self._image = replace(self._image, features=features)

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        """A block of producer ids was given to a broker."""
        self._image = replace(self._image, next_producer_id=record.next_producer_id)

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        """A broker started."""
        listeners = {
            point.name: ListenerImage(point.name, point.host, point.port, point.security_protocol)
            for point in record.end_points
        }
        self._registered()[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=listeners,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        """A broker is gone for good."""
        self._registered().pop(record.broker_id, None)

    def broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """A broker was fenced (1) or unfenced (-1), or began its shutdown (1)."""
        brokers = self._registered()
        before = brokers[record.broker_id]
        brokers[record.broker_id] = replace(
            before,
            fenced=before.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown > 0,
        )

    def fence_broker(self, record: FenceBrokerRecord) -> None:
        """A broker was fenced; the older form of `broker_change`."""
        self._registered()[record.id] = replace(self._registered()[record.id], fenced=True)

    def unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        """A broker was unfenced; the older form of `broker_change`."""
        self._registered()[record.id] = replace(self._registered()[record.id], fenced=False)


def _changed(new: tuple[Any, ...] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
    return old if new is None else new


_HANDLERS: Final[Mapping[type[Message], Callable[[ImageBuilder, Any], None]]] = {
    TopicRecord: ImageBuilder.topic,
    PartitionRecord: ImageBuilder.partition,
    PartitionChangeRecord: ImageBuilder.partition_change,
    RemoveTopicRecord: ImageBuilder.remove_topic,
    ConfigRecord: ImageBuilder.config,
    ClientQuotaRecord: ImageBuilder.client_quota,
    UserScramCredentialRecord: ImageBuilder.scram_credential,
    RemoveUserScramCredentialRecord: ImageBuilder.remove_scram_credential,
    FeatureLevelRecord: ImageBuilder.feature,
    ProducerIdsRecord: ImageBuilder.producer_ids,
    RegisterBrokerRecord: ImageBuilder.register_broker,
    UnregisterBrokerRecord: ImageBuilder.unregister_broker,
    BrokerRegistrationChangeRecord: ImageBuilder.broker_change,
    FenceBrokerRecord: ImageBuilder.fence_broker,
    UnfenceBrokerRecord: ImageBuilder.unfence_broker,
}
