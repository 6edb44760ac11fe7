"""Registration of brokers; the first one writes the first records of a cluster."""

from collections.abc import Sequence
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.replication_settings import fix_min_insync
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.image.records import cluster_id_record
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.settings import DecisionContext
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
    """A broker that starts: `incarnation_id` is new at every start, `listeners` are the advertised ones."""

    node_id: int
    incarnation_id: UUID
    cluster_id: str
    listeners: Sequence[ListenerImage]
    rack: str | None = None


@immutable
class Registered:
    """The reply to a registration: the broker's epoch, which is the offset of the registration's record."""

    broker_epoch: int


def register_broker(
    context: DecisionContext, registration: BrokerRegistration
) -> tuple[list[Message], Registered | RefusedError]:
    """Register a broker that starts and serves at once; the first registration adds the records of a new cluster.

    The reply is a RefusedError (INCONSISTENT_CLUSTER_ID) when the log belongs to a cluster with another id.
    """
    image = context.image
    if image.cluster_id not in ("", registration.cluster_id):
        message = f"This storage belongs to cluster {image.cluster_id}, not to {registration.cluster_id}."
        return [], RefusedError(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    founding = [] if image.cluster_id else founding_records(context, registration.cluster_id)
    epoch = context.next_offset + len(founding)
    return [*founding, _registration_record(image, registration, epoch)], Registered(epoch)


def found_cluster(context: DecisionContext, cluster_id: str) -> tuple[list[Message], None]:
    """Write the first records of a cluster, unless the log has them."""
    return ([] if context.image.cluster_id else founding_records(context, cluster_id)), None


def founding_records(context: DecisionContext, cluster_id: str) -> list[Message]:
    """Returns the first records of a new cluster's log."""
    return [*cluster_records(context.image, cluster_id), *fix_min_insync(context)]


def cluster_records(image: MetadataImage, cluster_id: str) -> list[Message]:
    """Returns a cluster's id, and the highest supported level of every feature."""
    levels = [
        FeatureLevelRecord(name=name, feature_level=newest) for name, (_, newest) in image.features.supported.items()
    ]
    return [cluster_id_record(cluster_id), *levels]


def _registration_record(
    image: MetadataImage, registration: BrokerRegistration, broker_epoch: int
) -> RegisterBrokerRecord:
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
    """Returns the image with a broker's current registration, even if it is not in the metadata log yet."""
    known = image.brokers.get(registration.node_id)
    if known is not None and known.incarnation_id == registration.incarnation_id:
        return image
    delta = MetadataDelta(image)
    replay(delta, _registration_record(image, registration, image.offset + 1), image.offset, image.epoch)
    return delta.apply()
