"""Brokers join the cluster; the first one founds it."""

from collections.abc import Sequence
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.image.records import cluster_id_record
from odradek.coordinator.metadata.image.replay import ImageBuilder
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)
from odradek.wire.values import immutable


@immutable
class BrokerRegistration:
    """A broker that starts: `incarnation_id` is new at every start, `listeners` are as clients are told."""

    node_id: int
    incarnation_id: UUID
    listeners: Sequence[ListenerImage]
    rack: str | None = None


@immutable
class Registered:
    """The reply to a registration: which cluster it is, and the broker's epoch in it."""

    cluster_id: str
    broker_epoch: int


def found_cluster(image: MetadataImage, cluster_id: str) -> list[Message]:
    """Records that give a new cluster its id and feature levels; none where it has them.

    Raises RefusedError (INCONSISTENT_CLUSTER_ID) when the log belongs to a cluster with another id.
    """
    if image.cluster_id:
        if cluster_id not in ("", image.cluster_id):
            raise RefusedError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"This storage belongs to cluster {image.cluster_id}, not to {cluster_id}.",
            )
        return []
    levels = [
        FeatureLevelRecord(name=name, feature_level=newest) for name, (_, newest) in image.features.supported.items()
    ]
    return [cluster_id_record(cluster_id), *levels]


def register_broker(image: MetadataImage, registration: BrokerRegistration, broker_epoch: int) -> RegisterBrokerRecord:
    """The record of a broker that starts and serves at once; its epoch is the record's place in the log."""
    return RegisterBrokerRecord(
        broker_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in registration.listeners
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in image.features.supported.items()
        ),
        rack=registration.rack,
        fenced=False,
    )


def with_broker(image: MetadataImage, registration: BrokerRegistration) -> MetadataImage:
    """The image with a broker as it is now, where its registration is not in the metadata log yet."""
    known = image.brokers.get(registration.node_id)
    if known is not None and known.incarnation_id == registration.incarnation_id:
        return image
    builder = ImageBuilder(image)
    builder.apply(register_broker(image, registration, image.record_count))
    return builder.image
