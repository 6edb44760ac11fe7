"""Holds the published metadata image, and calls the functions that react to its changes.

A delta is published once its records are committed, and before the controller sends the replies that depend on them:
when a topic is reported as created, the client finds it with its settings in force.
"""

from collections.abc import Callable
from uuid import UUID

from odradek.coordinator.metadata.controller.brokers import BrokerRegistration, with_broker
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.elections import ElectionCounts
from odradek.coordinator.metadata.image.image import FeaturesImage, MetadataImage
from odradek.gateway.config.releases import Release
from odradek.gateway.env.signals import Watchable

Reaction = Callable[[MetadataDelta, MetadataImage], None]
"""Reacts to a delta and the resulting image. It neither waits nor raises."""


class MetadataPublisher:
    """Holds the newest committed image, and calls the reactions, in their order, on the Trio thread.

    `logged` is the image of the metadata log; `image` also shows this broker's current state while its registration
    cannot be written. `changes` is notified after the reactions. `elections` are those since `begin_counting`, for the
    metrics; any thread may read them.
    """

    def __init__(self, release: Release | None = None) -> None:
        self._release = release
        self.image = self.logged = MetadataImage()
        self.changes = Watchable()
        self.elections = ElectionCounts()
        self._is_counting = False
        self._reactions: tuple[Reaction, ...] = ()
        self._registration: BrokerRegistration | None = None

    @property
    def features(self) -> FeaturesImage:
        """The feature levels that this broker follows: the cluster's, or at most those of the emulated release."""
        features = self.image.features
        return features if self._release is None else self._release.shown(features)

    def call(self, *reactions: Reaction) -> None:
        """Set the functions to call on every delta from now on, in this order."""
        self._reactions = reactions

    def publish(self, delta: MetadataDelta) -> None:
        """Publish the image that results from a committed delta."""
        assert delta.before is self.logged, "a delta follows the image that was published last"
        self.logged = delta.apply()
        self._show()
        if self._is_counting:
            self.elections.add(delta.elections)
        for act in self._reactions:
            act(delta, self.image)
        self.changes.notify()

    def begin_counting(self) -> None:
        """Count elections from now on: this node has caught up, and what it has published so far is not new."""
        self._is_counting = True

    def show_broker(self, registration: BrokerRegistration) -> None:
        """Show this broker's current state in the image, in place of the logged one."""
        self._registration = registration
        self._show()

    def _show(self) -> None:
        self.image = self.logged if self._registration is None else with_broker(self.logged, self._registration)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic that has this id now, or None."""
        topic = self.image.topic_by_id(topic_id)
        return None if topic is None else topic.name
