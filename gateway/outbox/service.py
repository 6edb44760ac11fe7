"""The outbox of a broker: its topics and its relay, which run concurrently."""

import trio

from odradek.gateway.env.environment import Environment
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.metadata.settings import LiveSettings
from odradek.gateway.outbox.relay import OutboxRelay
from odradek.gateway.outbox.topics import OutboxTopics
from odradek.gateway.replication.replicas import Replicas
from odradek.storage_backends.outbox import Outbox


class OutboxService:
    """The tasks of an outbox: its topics and its relay. The caller passes each metadata change to `topics`."""

    def __init__(
        self,
        outbox: Outbox,
        env: Environment,
        replicas: Replicas,
        metadata: MetadataPublisher,
        settings: LiveSettings,
    ) -> None:
        self.topics = OutboxTopics(
            outbox, env, settings.log_config, replicas.repeats, replicas.node_id, replicas.current
        )
        poll_interval_ms = settings.config.outbox_poll_interval_ms
        self._relay = OutboxRelay(outbox, env, replicas, metadata, replicas.repeats, poll_interval_ms)

    async def run(self) -> None:
        """Serve the outbox until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.topics.run)
            nursery.start_soon(self._relay.run)
