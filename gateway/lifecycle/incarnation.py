"""The incarnation of the broker in its registration, and the images from which it leads partitions."""

from uuid import UUID

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import BrokerConfig
from odradek.gateway.metadata.starting import is_only_broker


class Incarnation:
    """One incarnation of a broker; its `id` is new at every start, and when the broker registers anew (`renew`)."""

    def __init__(self, config: BrokerConfig, incarnation_id: UUID) -> None:
        self.id = incarnation_id
        self._node = config.node
        self._node_id = config.node_id

    def renew(self, incarnation_id: UUID) -> None:
        """Begin another incarnation: the controller has ended the last one, and its leaderships with it."""
        self.id = incarnation_id

    def leads_in(self, image: MetadataImage) -> bool:
        """True if this incarnation may lead the partitions whose leader the image has this broker as.

        Those of an image without its registration are the previous incarnation's, which has maybe lost its last
        records in a power cut. With other records at the same offsets in the same leader epoch the logs of its
        followers would differ from its own for good. A registration is followed by elections, in new epochs. A sole
        voter without other brokers has no followers.
        """
        if self._node.is_alone and is_only_broker(image, self._node_id):
            return True
        own = image.brokers.get(self._node_id)
        return own is not None and own.incarnation_id == self.id
