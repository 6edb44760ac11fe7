"""The metadata of the cluster at one moment: immutable, with fast lookups.

An image shares with the previous image everything that did not change (`delta.py`).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final
from uuid import UUID

from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.values import immutable

ConfigKey = tuple[int, str]
"""A resource type (`odradek.coordinator.configs.definition.ResourceType`) and the name of the resource."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: pairs of type and name, ordered by type; the name None is the default of its type."""

ScramKey = tuple[str, int]
"""A user's name, and the number of a SCRAM mechanism (1 SHA-256, 2 SHA-512)."""

NO_LEADER: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""The recovery state of a leader from an unclean election, until it proposes that it has recovered."""
NO_FEATURES: Final[Mapping[str, tuple[int, int]]] = {}
_NO_CONFIGS: Final[Mapping[str, str]] = {}

SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "metadata.version": (7, 30),
    "transaction.version": (0, 2),
}
"""Feature levels that this broker supports (KIP-584): 30 is Kafka's 4.3-IV0, group version 1 is KIP-848."""


@immutable
class ListenerImage:
    """The endpoint of one of a node's listeners; `security_protocol` is Kafka's number (0 PLAINTEXT)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@immutable
class BrokerImage:
    """One registered broker. `epoch` is the offset of its registration; a fenced broker serves no clients.

    `features` are the levels that it supports, `log_dirs` the ids of its log directories.
    """

    id: int
    epoch: int
    incarnation_id: UUID
    listeners: Mapping[str, ListenerImage]
    rack: str | None = None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)
    log_dirs: tuple[UUID, ...] = ()

    @property
    def is_active(self) -> bool:
        """True if it may get new leaderships and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown


@immutable
class ControllerImage:
    """One registered controller, with its listeners for brokers and tools (KIP-919)."""

    id: int
    incarnation_id: UUID
    listeners: Mapping[str, ListenerImage]
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)


@immutable
class PartitionImage:
    """One partition. `leader` is -1 while there is none; ELR are the eligible leader replicas of KIP-966.

    `replicas` include those of a reassignment that are `adding_replicas` or `removing_replicas`.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    directories: tuple[UUID, ...] = ()


@immutable
class TopicImage:
    """One topic; `partitions` by index."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionImage, ...] = ()


@immutable
class FeaturesImage:
    """Feature levels: those supported, and those in force."""

    supported: Mapping[str, tuple[int, int]] = field(default_factory=lambda: SUPPORTED_FEATURES)
    finalized: Mapping[str, int] = field(default_factory=dict[str, int])


@immutable
class ScramCredential:
    """The stored part of a password (RFC 5802): enough to verify it, but not to compute it."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@immutable
class MetadataImage:
    """All metadata up to the record at `offset`, which the leader of `epoch` wrote; both are -1 before any record.

    `cluster_id` is from the log, and empty if it is not there; `next_producer_id` is the first unallocated id;
    `partition_count` is the number of partitions of all topics; `colliding` maps a name with underscores for dots to
    the topics that would share a metric's name.
    """

    cluster_id: str = ""
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict[int, BrokerImage])
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict[int, ControllerImage])
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict[str, TopicImage])
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict[UUID, TopicImage])
    configs: Mapping[ConfigKey, Mapping[str, str]] = field(default_factory=dict[ConfigKey, Mapping[str, str]])
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict[QuotaEntity, Mapping[str, float]])
    scram: Mapping[ScramKey, ScramCredential] = field(default_factory=dict[ScramKey, ScramCredential])
    features: FeaturesImage = field(default_factory=FeaturesImage)
    colliding: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    next_producer_id: int = 0
    partition_count: int = 0
    offset: int = -1
    epoch: int = -1

    def topic(self, name: str) -> TopicImage | None:
        """Returns the topic with this name, or None."""
        return self.topics_by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        """Returns the topic with this id, or None; always None for the zero id."""
        return None if topic_id == ZERO_UUID else self.topics_by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        """Returns the partition, or None."""
        topic = self.topics_by_name.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Returns the dynamic configs of a resource; empty if there are none."""
        return self.configs.get((resource_type, name), _NO_CONFIGS)
