"""Records of the cluster metadata log ``__cluster_metadata``."""

from __future__ import annotations

from uuid import UUID

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field
from odradek.wire.schema.types import ZERO_UUID, Buffer


class BrokerEndpoint(Struct):
    """An element of ``RegisterBrokerRecord.end_points``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)
    security_protocol: int = field(types.int16, default=0)


class BrokerFeature(Struct):
    """An element of ``RegisterBrokerRecord.features``."""

    name: str = field(types.string, default="")
    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class RegisterBrokerRecord(Message, kind="metadata", api_key=0, versions="0-4", flexible="0+"):
    """Metadata record of type 0, versions 0 to 4."""

    broker_id: int = field(types.int32, default=0)
    is_migrating_zk_broker: bool = field(types.boolean, versions="2+", default=False)
    incarnation_id: UUID = field(types.uuid, default=ZERO_UUID)
    broker_epoch: int = field(types.int64, default=0)
    end_points: tuple[BrokerEndpoint, ...] = field(types.array(BrokerEndpoint), default=())
    features: tuple[BrokerFeature, ...] = field(types.array(BrokerFeature), default=())
    rack: str | None = field(types.string, nullable="0+", default="")
    fenced: bool = field(types.boolean, default=True)
    in_controlled_shutdown: bool = field(types.boolean, versions="1+", default=False)
    log_dirs: tuple[UUID, ...] = field(types.array(types.uuid), versions="3+", tag=0, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = field(
        types.array(types.uuid), versions="4+", nullable="4+", tag=1, default=None
    )


class UnregisterBrokerRecord(Message, kind="metadata", api_key=1, versions="0", flexible="0+"):
    """Metadata record of type 1, version 0."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=0)


class TopicRecord(Message, kind="metadata", api_key=2, versions="0", flexible="0+"):
    """Metadata record of type 2, version 0."""

    name: str = field(types.string, default="")
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)


class PartitionRecord(Message, kind="metadata", api_key=3, versions="0-2", flexible="0+"):
    """Metadata record of type 3, versions 0 to 2."""

    partition_id: int = field(types.int32, default=-1)
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    replicas: tuple[int, ...] = field(types.array(types.int32), default=())
    isr: tuple[int, ...] = field(types.array(types.int32), default=())
    removing_replicas: tuple[int, ...] = field(types.array(types.int32), default=())
    adding_replicas: tuple[int, ...] = field(types.array(types.int32), default=())
    leader: int = field(types.int32, default=-1)
    leader_recovery_state: int = field(types.int8, tag=0, default=0)
    leader_epoch: int = field(types.int32, default=-1)
    partition_epoch: int = field(types.int32, default=-1)
    directories: tuple[UUID, ...] = field(types.array(types.uuid), versions="1+", default=())
    eligible_leader_replicas: tuple[int, ...] | None = field(
        types.array(types.int32), versions="2+", nullable="2+", tag=1, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        types.array(types.int32), versions="2+", nullable="2+", tag=2, default=None
    )


class ConfigRecord(Message, kind="metadata", api_key=4, versions="0", flexible="0+"):
    """Metadata record of type 4, version 0."""

    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    name: str = field(types.string, default="")
    value: str | None = field(types.string, nullable="0+", default="")


class PartitionChangeRecord(Message, kind="metadata", api_key=5, versions="0-2", flexible="0+"):
    """Metadata record of type 5, versions 0 to 2."""

    partition_id: int = field(types.int32, default=-1)
    topic_id: UUID = field(types.uuid, default=ZERO_UUID)
    isr: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=0, default=None)
    leader: int = field(types.int32, tag=1, default=-2)
    replicas: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=2, default=None)
    removing_replicas: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=3, default=None)
    adding_replicas: tuple[int, ...] | None = field(types.array(types.int32), nullable="0+", tag=4, default=None)
    leader_recovery_state: int = field(types.int8, tag=5, default=-1)
    directories: tuple[UUID, ...] | None = field(
        types.array(types.uuid), versions="1+", nullable="1+", tag=8, default=None
    )
    eligible_leader_replicas: tuple[int, ...] | None = field(
        types.array(types.int32), versions="2+", nullable="2+", tag=6, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        types.array(types.int32), versions="2+", nullable="2+", tag=7, default=None
    )


class FenceBrokerRecord(Message, kind="metadata", api_key=7, versions="0", flexible="0+"):
    """Metadata record of type 7, version 0."""

    id: int = field(types.int32, default=0)
    epoch: int = field(types.int64, default=0)


class UnfenceBrokerRecord(Message, kind="metadata", api_key=8, versions="0", flexible="0+"):
    """Metadata record of type 8, version 0."""

    id: int = field(types.int32, default=0)
    epoch: int = field(types.int64, default=0)


class RemoveTopicRecord(Message, kind="metadata", api_key=9, versions="0", flexible="0+"):
    """Metadata record of type 9, version 0."""

    topic_id: UUID = field(types.uuid, default=ZERO_UUID)


class DelegationTokenRecord(Message, kind="metadata", api_key=10, versions="0", flexible="0+"):
    """Metadata record of type 10, version 0."""

    owner: str = field(types.string, default="")
    requester: str = field(types.string, default="")
    renewers: tuple[str, ...] = field(types.array(types.string), default=())
    issue_timestamp: int = field(types.int64, default=0)
    max_timestamp: int = field(types.int64, default=0)
    expiration_timestamp: int = field(types.int64, default=0)
    token_id: str = field(types.string, default="")


class UserScramCredentialRecord(Message, kind="metadata", api_key=11, versions="0", flexible="0+"):
    """Metadata record of type 11, version 0."""

    name: str = field(types.string, default="")
    mechanism: int = field(types.int8, default=0)
    salt: Buffer = field(types.data, default=b"")
    stored_key: Buffer = field(types.data, default=b"")
    server_key: Buffer = field(types.data, default=b"")
    iterations: int = field(types.int32, default=0)


class FeatureLevelRecord(Message, kind="metadata", api_key=12, versions="0", flexible="0+"):
    """Metadata record of type 12, version 0."""

    name: str = field(types.string, default="")
    feature_level: int = field(types.int16, default=0)


class EntityData(Struct):
    """An element of ``ClientQuotaRecord.entity``."""

    entity_type: str = field(types.string, default="")
    entity_name: str | None = field(types.string, nullable="0+", default="")


class ClientQuotaRecord(Message, kind="metadata", api_key=14, versions="0", flexible="0+"):
    """Metadata record of type 14, version 0."""

    entity: tuple[EntityData, ...] = field(types.array(EntityData), default=())
    key: str = field(types.string, default="")
    value: float = field(types.float64, default=0.0)
    remove: bool = field(types.boolean, default=False)


class ProducerIdsRecord(Message, kind="metadata", api_key=15, versions="0", flexible="0+"):
    """Metadata record of type 15, version 0."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=-1)
    next_producer_id: int = field(types.int64, default=0)


class BrokerRegistrationChangeRecord(Message, kind="metadata", api_key=17, versions="0-3", flexible="0+"):
    """Metadata record of type 17, versions 0 to 3."""

    broker_id: int = field(types.int32, default=0)
    broker_epoch: int = field(types.int64, default=0)
    fenced: int = field(types.int8, tag=0, default=0)
    in_controlled_shutdown: int = field(types.int8, versions="1+", tag=1, default=0)
    log_dirs: tuple[UUID, ...] = field(types.array(types.uuid), versions="2+", tag=2, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = field(
        types.array(types.uuid), versions="3+", nullable="3+", tag=3, default=None
    )


class AccessControlEntryRecord(Message, kind="metadata", api_key=18, versions="0", flexible="0+"):
    """Metadata record of type 18, version 0."""

    id: UUID = field(types.uuid, default=ZERO_UUID)
    resource_type: int = field(types.int8, default=0)
    resource_name: str = field(types.string, default="")
    pattern_type: int = field(types.int8, default=0)
    principal: str = field(types.string, default="")
    host: str = field(types.string, default="")
    operation: int = field(types.int8, default=0)
    permission_type: int = field(types.int8, default=0)


class RemoveAccessControlEntryRecord(Message, kind="metadata", api_key=19, versions="0", flexible="0+"):
    """Metadata record of type 19, version 0."""

    id: UUID = field(types.uuid, default=ZERO_UUID)


class NoOpRecord(Message, kind="metadata", api_key=20, versions="0", flexible="0+"):
    """Metadata record of type 20, version 0."""


class ZkMigrationStateRecord(Message, kind="metadata", api_key=21, versions="0", flexible="0+"):
    """Metadata record of type 21, version 0."""

    zk_migration_state: int = field(types.int8, default=0)


class RemoveUserScramCredentialRecord(Message, kind="metadata", api_key=22, versions="0", flexible="0+"):
    """Metadata record of type 22, version 0."""

    name: str = field(types.string, default="")
    mechanism: int = field(types.int8, default=0)


class BeginTransactionRecord(Message, kind="metadata", api_key=23, versions="0", flexible="0+"):
    """Metadata record of type 23, version 0."""

    name: str | None = field(types.string, nullable="0+", tag=0, default=None)


class EndTransactionRecord(Message, kind="metadata", api_key=24, versions="0", flexible="0+"):
    """Metadata record of type 24, version 0."""


class AbortTransactionRecord(Message, kind="metadata", api_key=25, versions="0", flexible="0+"):
    """Metadata record of type 25, version 0."""

    reason: str | None = field(types.string, nullable="0+", tag=0, default=None)


class RemoveDelegationTokenRecord(Message, kind="metadata", api_key=26, versions="0", flexible="0+"):
    """Metadata record of type 26, version 0."""

    token_id: str = field(types.string, default="")


class ControllerEndpoint(Struct):
    """An element of ``RegisterControllerRecord.end_points``."""

    name: str = field(types.string, default="")
    host: str = field(types.string, default="")
    port: int = field(types.uint16, default=0)
    security_protocol: int = field(types.int16, default=0)


class ControllerFeature(Struct):
    """An element of ``RegisterControllerRecord.features``."""

    name: str = field(types.string, default="")
    min_supported_version: int = field(types.int16, default=0)
    max_supported_version: int = field(types.int16, default=0)


class RegisterControllerRecord(Message, kind="metadata", api_key=27, versions="0", flexible="0+"):
    """Metadata record of type 27, version 0."""

    controller_id: int = field(types.int32, default=0)
    incarnation_id: UUID = field(types.uuid, default=ZERO_UUID)
    zk_migration_ready: bool = field(types.boolean, default=False)
    end_points: tuple[ControllerEndpoint, ...] = field(types.array(ControllerEndpoint), default=())
    features: tuple[ControllerFeature, ...] = field(types.array(ControllerFeature), default=())


class ClearElrRecord(Message, kind="metadata", api_key=28, versions="0", flexible="0+"):
    """Metadata record of type 28, version 0."""

    topic_name: str = field(types.string, default="")
