"""Publishes the topics to which the database may append, updated with the published metadata.

A change of metadata is answered when the database has it, too (`written`), so that a client can append to a topic as
soon as its creation is answered. Until the database has a topic's deletion, records may still be appended to it; they
become dead letters.

Only topics all of whose partitions have this broker as their only replica are published. An entry of the outbox is
deleted in the database's transaction that writes its record here, so nothing would be left of a record that another
leader does not have.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import trio

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.topic_names import INTERNAL_TOPICS
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Condition, Signal
from odradek.partitions.config import LogConfig
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.outbox import Outbox, OutboxTopic

log = logging.getLogger(__name__)

WAIT_S: Final = 5.0
"""The maximum wait of the response to a change of metadata for the database, in seconds."""
RETRY_S: Final = 0.5
AT_ONCE: Final = 1000
"""The number of topics described in one turn of the event loop, and written in one transaction."""


class OutboxTopics:
    """Publishes the topics of broker `node_id` to an outbox; `log_config(image, topic)` returns a topic's settings.

    Nothing is published before `current` is set: an older image may not have all topics.
    """

    def __init__(
        self,
        outbox: Outbox,
        env: Environment,
        log_config: Callable[[MetadataImage, str], LogConfig],
        repeats: Repeats,
        node_id: int,
        current: trio.Event,
    ) -> None:
        self._outbox, self._env, self._log_config, self._repeats = outbox, env, log_config, repeats
        self._node_id, self._current = node_id, current
        self._image = MetadataImage()
        self._stale: dict[str, None] = {}
        self._are_known = False
        self._changed = Signal()
        self._changed.wake()  # the database may have other topics
        self._is_behind = True
        self._written = Condition()

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note changed topics and settings."""
        self._image = image
        if delta.changed_configs(ResourceType.BROKER):
            self._are_known = False
        self._stale.update(delta.topics.by_name.changed)
        self._stale.update(dict.fromkeys(delta.changed_configs(ResourceType.TOPIC)))
        for topic_id in delta.topics.changed:
            self._stale[image.topics_by_id[topic_id].name] = None
        if self._stale or not self._are_known:
            self._is_behind = True
            self._changed.wake()

    async def written(self) -> None:
        """Wait until the database has all topics that are now published, but at most WAIT_S.

        Returns at once while the image is not current.
        """
        with trio.move_on_after(WAIT_S):
            while self._is_behind and self._current.is_set():
                await self._written.wait()

    async def run(self) -> None:
        """Write changes until cancelled; a failed write is retried."""
        await self._current.wait()
        while True:
            await self._changed.wait()
            try:
                await self._write()
            except StoreError as error:
                message = "the database does not know of changed topics yet cause=%s"
                self._repeats.note(message, log, logging.WARNING, message, error)
                self._changed.wake()
                await trio.sleep(RETRY_S)
            else:
                self._is_behind = bool(self._stale) or not self._are_known
                self._written.notify()

    async def _write(self) -> None:
        stale, self._stale = self._stale, {}
        were_known, self._are_known = self._are_known, True
        try:
            if not were_known:
                stale = await self._all_stale()
            await self._publish(list(stale))
        except BaseException:
            self._stale = stale | self._stale
            self._are_known = were_known and self._are_known
            raise

    async def _all_stale(self) -> dict[str, None]:
        """The topics whose description in the database differs."""
        known = await self._env.run_blocking(self._outbox.topics)
        stale: dict[str, None] = {}
        for names in batched(list({**known, **self._image.topics_by_name}), AT_ONCE):
            await trio.lowlevel.checkpoint()
            stale.update(dict.fromkeys([name for name in names if known.get(name) != self._described(name)]))
        return stale

    async def _publish(self, names: Sequence[str]) -> None:
        for batch in batched(names, AT_ONCE):
            described = {name: self._described(name) for name in batch}
            changed = [each for each in described.values() if each is not None]
            deleted = [name for name, each in described.items() if each is None]
            await self._env.run_blocking(partial(self._outbox.publish, changed, deleted))

    def _described(self, name: str) -> OutboxTopic | None:
        """The topic's data for appending; None if there is no such topic that the database may append to."""
        topic = self._image.topic(name)
        if topic is None or not topic.partitions or name in INTERNAL_TOPICS:
            return None
        if any(partition.replicas != (self._node_id,) for partition in topic.partitions):
            return None
        config = self._log_config(self._image, name)
        size_bytes = min(config.max_message_bytes, config.segment_bytes)
        return OutboxTopic(name, topic.topic_id, len(topic.partitions), size_bytes, config.is_compacted)


def batched(names: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    """The names in batches of the given size."""
    return (names[start : start + count] for start in range(0, len(names), count))
