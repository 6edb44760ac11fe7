"""All partitions of this broker, updated with each published metadata image.

Logs are opened at first use, so that a start with ten partitions costs the same as with ten thousand.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import trio

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.delta import MAX_DELETED, MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage, TopicImage
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.assignment import Assignment, standing_of
from odradek.gateway.replication.recovery import shared_cause
from odradek.gateway.replication.replica import LogResources, Replica, ReplicaState
from odradek.gateway.replication.strays import few, knows
from odradek.partitions.config import LogConfig
from odradek.partitions.in_sync import BrokerStanding
from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import StoreError, StoreSpace
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.types import ZERO_UUID

log = logging.getLogger(__name__)

CLOSED_AT_ONCE: Final = 200
"""The number of logs closed concurrently: thousands of tasks that begin in one turn would delay the last replies."""
LOOKED_UP_AT_ONCE: Final = 500
"""The number of logs that are looked up in one turn: the first time each costs 10 us or more."""


def _always(_image: MetadataImage) -> bool:
    return True


class Replicas:
    """The replicas of one broker.

    `log_config(image, topic)` returns a topic's settings. A log in the store that is not in the image is deleted if the
    metadata log has the deletion of its topic, or if its partition has moved to other brokers; otherwise it is set
    aside as a stray. Topics in `kept` are exempt. None of this happens before `image_is_current` was called. With
    `selects_by_rack`, consumers that send a rack are directed to a replica there. The broker leads nothing in images
    for which `leads_in` is False; an election, in another leader epoch, precedes each leadership in a later image.
    """

    def __init__(
        self,
        resources: LogResources,
        node_id: int,
        log_config: Callable[[MetadataImage, str], LogConfig],
        *,
        kept: frozenset[str] = frozenset(),
        selects_by_rack: bool = False,
        leads_in: Callable[[MetadataImage], bool] = _always,
    ) -> None:
        self.may_lead = False
        """True if the broker leads the partitions whose leader it is in the image of the last `on_published`."""
        self.selects_by_rack = selects_by_rack
        self._leads_in = leads_in
        self.backlog = resources.backlog
        self.deadlines = resources.deadlines
        self.repeats = resources.repeats
        self.traffic = resources.traffic
        self.commit_times = resources.commit_times
        self.isr_changes = resources.isr_changes
        self.throttles = resources.throttles
        self._resources = resources
        self.node_id = node_id
        self._log_config = log_config
        self._kept = kept
        self._image: MetadataImage | None = None
        self._deleted: dict[UUID, None] = {}
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._retired: dict[PartitionKey, Replica] = {}
        self._moved: dict[PartitionKey, None] = {}  # partitions that now belong to other brokers
        self._undeleted: dict[PartitionKey, None] = {}  # of them, those whose log could not be deleted
        self._standings: dict[int, BrokerStanding | None] = {}
        self.current = trio.Event()
        """Set by `image_is_current`."""
        self._sweeping = trio.Lock()

    def get(self, topic: str, index: int) -> Replica | None:
        """The replica of a partition; None if the partition does not exist or this broker has no replica of it."""
        found = self._replicas.get((topic, index))
        if found is None and self._image is not None:
            described = self._described(topic, index)
            if described is not None and self.node_id in described.partitions[index].replicas:
                found = self._replicas[topic, index] = self._make(self._image, described, index)
        return found

    def used(self, topic: str, index: int) -> Replica | None:
        """The replica of a partition that was used since the start, else None. May be called from any thread."""
        return self._replicas.get((topic, index))

    def _described(self, topic: str, index: int) -> TopicImage | None:
        """The topic, if it has such a partition."""
        described = None if self._image is None else self._image.topic(topic)
        return described if described is not None and 0 <= index < len(described.partitions) else None

    def find(self, topic: str | None, index: int, topic_id: UUID = ZERO_UUID) -> Replica:
        """The replica of a partition, its log open or not. Raises PartitionUnavailable.

        `topic` is None for an id that no topic has; `topic_id` is the id that the topic must have, unless it is zero.
        """
        if topic is None:
            raise PartitionUnavailable(ErrorCode.UNKNOWN_TOPIC_ID, index)
        replica = self.get(topic, index)
        if replica is None:
            is_elsewhere = self._described(topic, index) is not None
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise PartitionUnavailable(error, f"{topic}-{index}")
        if topic_id is not ZERO_UUID and topic_id != replica.key.topic_id:
            raise PartitionUnavailable(ErrorCode.INCONSISTENT_TOPIC_ID, replica.key)
        return replica

    async def leader(self, topic: str | None, index: int, topic_id: UUID = ZERO_UUID) -> Replica:
        """The replica of a partition, found as `find` does and then opened. Does not check that it leads.

        Raises PartitionUnavailable.
        """
        replica = self.find(topic, index, topic_id)
        if replica.state is not ReplicaState.OPEN:
            await replica.ensure_open()
        return replica

    def _make(self, image: MetadataImage, topic: TopicImage, index: int) -> Replica:
        key = PartitionKey(topic.name, topic.topic_id, index)
        assigned = Assignment.of(topic.partitions[index], self.node_id, may_lead=self.may_lead)
        return Replica(key, self._log_config(image, topic.name), assigned, self._resources, self._standing_of)

    def _standing_of(self, broker_id: int) -> BrokerStanding | None:
        """Cached for each image, since it is needed for each partition of each follower's fetch."""
        found = self._standings.get(broker_id)
        if found is None:
            found = self._standings[broker_id] = standing_of(self._image, broker_id)
        return found

    @property
    def resources(self) -> LogResources:
        """Resources of all logs, the metadata log included."""
        return self._resources

    def lost_for(self, time_ms: int) -> list[PartitionKey]:
        """Partitions that this broker leads, could not write for `time_ms`, and another in-sync replica could lead.

        The last failed attempt must be that long after the first one: after a single failure, writes may work again.
        """
        lost: list[PartitionKey] = []
        for key, (first_ms, last_ms) in list(self._resources.unwritable_ms.items()):
            described = self._described(key.topic, key.index)
            if described is None or described.topic_id != key.topic_id:
                del self._resources.unwritable_ms[key]  # deleted, or not a partition of clients
            elif last_ms - first_ms >= time_ms:
                partition = described.partitions[key.index]
                if partition.leader == self.node_id and len(partition.isr) > 1:
                    lost.append(key)
        return lost

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Retire replicas of deleted topics, apply assignments and changed settings. Never blocks."""
        self._image = image
        self.may_lead = self._leads_in(image)
        self._standings.clear()
        self._deleted.update(delta.topics.deleted)
        for topic_id in list(self._deleted)[: len(self._deleted) - MAX_DELETED]:
            del self._deleted[topic_id]
        deleted = delta.topics.deleted_topics()
        for topic in deleted:
            self._retire(topic)
        if deleted:
            self.traffic.forget([topic.name for topic in deleted])
        if delta.configs.changed:  # first: with a smaller ISR and the old min.insync.replicas, a leader could commit
            self._configure(delta, image)
        self._assign(delta, image)
        if deleted or self._moved:
            self._begin_sweep()

    def image_is_current(self) -> None:
        """Note that the metadata log was replayed to its end: logs that are not in the image belong to no partition."""
        self.current.set()
        self._begin_sweep()

    def _begin_sweep(self) -> None:
        if self.current.is_set():
            self._resources.ticker.nursery.start_soon(self._sweep)

    def _assign(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the delta's changes to the replicas in use; others get them when they are created."""
        for topic_id, indexes in delta.topics.changed.items():
            topic = image.topic_by_id(topic_id)
            if topic is None:
                continue
            before = delta.before.topic_by_id(topic_id)
            for index in indexes:
                part = topic.partitions[index]
                if part.leader != self.node_id:
                    self._resources.unwritable_ms.pop(PartitionKey(topic.name, topic_id, index), None)
                if self.node_id not in part.replicas:
                    was = before.partitions[index] if before and index < len(before.partitions) else None
                    if was is not None and self.node_id in was.replicas:
                        self._give_up(PartitionKey(topic.name, topic_id, index))
                elif (replica := self._replicas.get((topic.name, index))) is not None:
                    replica.assign(Assignment.of(part, self.node_id, may_lead=self.may_lead))

    def _give_up(self, key: PartitionKey) -> None:
        """Retire a partition that has moved to other brokers: its log is deleted here, as in Kafka."""
        self._moved[key] = None
        replica = self._replicas.pop((key.topic, key.index), None)
        if replica is not None:
            replica.withdraw(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._retired[key] = replica

    def _retire(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            replica = self._replicas.get((topic.name, index))
            if replica is not None and replica.key.topic_id == topic.topic_id:
                replica.withdraw(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._retired[replica.key] = self._replicas.pop((topic.name, index))

    def _configure(self, delta: MetadataDelta, image: MetadataImage) -> None:
        everywhere = bool(delta.changed_configs(ResourceType.BROKER))
        changed = set(delta.changed_configs(ResourceType.TOPIC))
        for (topic, _), replica in self._replicas.items():
            if everywhere or topic in changed:
                replica.configure(self._log_config(image, topic))

    async def _sweep(self) -> None:
        """Delete the logs of deleted topics and moved partitions, and set aside unknown logs."""
        async with self._sweeping:
            self._moved |= self._undeleted
            self._undeleted.clear()
            while self._moved:
                await self._delete_moved(next(iter(self._moved)))
            try:
                keys = await self._resources.env.run_blocking(self._resources.store.partitions)
            except StoreError as error:
                log.warning("cannot look for the logs of deleted topics, tried again at the next start cause=%s", error)
                return
            # A retired log may be missing in the store, because it is only now being opened.
            found = [key for key in dict.fromkeys((*keys, *self._retired)) if key not in self._undeleted]
            unknown = [key for key in found if self._is_unknown(key)]
            for key in unknown:
                if key.topic_id in self._deleted:
                    await self._delete(key)
            await self._set_aside([key for key in unknown if key.topic_id not in self._deleted])

    def _is_unknown(self, key: PartitionKey) -> bool:
        return self._image is not None and key.topic not in self._kept and not knows(self._image, key, self.node_id)

    async def _delete_moved(self, key: PartitionKey) -> None:
        """Delete the log, unless the partition has returned: it then continues with its records.

        The store refuses to open a log while it is being deleted, and to delete a log that is open.
        """
        del self._moved[key]
        retired = self._retired.pop(key, None)
        if retired is not None:
            await retired.close()
        if self._is_unknown(key) and not await self._delete(key):
            self._undeleted[key] = None

    async def _set_aside(self, keys: Sequence[PartitionKey]) -> None:
        names: list[str] = []
        for key in keys:
            try:
                names.append(await self._resources.env.run_blocking(partial(self._resources.store.set_aside, key)))
            except StoreError as error:
                self._note(error, "cannot set aside the log of an unknown partition partition=%s cause=%s", key)
        if names:
            log.warning("this node has no replicas of these logs, they were set aside count=%d names=%s%s", *few(names))

    async def _delete(self, key: PartitionKey) -> bool:
        """Delete the log of a deleted topic or a moved partition; False, and logged, if the store fails."""
        try:
            retired = self._retired.pop(key, None)
            if retired is not None:
                await retired.close()
            await self._resources.env.run_blocking(lambda: self._resources.store.delete(key))
        except StoreError as error:
            message = "cannot delete the log, tried again at the next deletion partition=%s cause=%s"
            self._note(error, message, key)
            return False
        log.info("deleted log partition=%s topic_id=%s", key, key.topic_id)
        return True

    def _note(self, error: StoreError, message: str, key: PartitionKey) -> None:
        self.repeats.note((message, shared_cause(error) or key), log, logging.ERROR, message, key, error)

    def opened(self) -> Iterable[Replica]:
        """All replicas that were used so far."""
        return list(self._replicas.values())

    async def all_stored(self) -> list[Replica]:
        """The replicas of all logs in the store, opened or not, except those in `kept`. Raises StoreError."""
        keys = await self._resources.env.run_blocking(self._resources.store.partitions)
        found: list[Replica] = []
        for at, key in enumerate(keys, start=1):
            replica = None if self._is_unknown(key) or key.topic in self._kept else self.get(key.topic, key.index)
            if replica is not None:
                found.append(replica)
            if at % LOOKED_UP_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        return found

    async def close_idle(self) -> None:
        """Release the files and memory of logs that were not used since the last call. Raises StoreError."""
        closed = await self._resources.env.run_blocking(self._resources.store.close_idle)
        if closed:
            log.debug("closed the files of idle logs segments=%d", closed)

    async def space(self) -> StoreSpace:
        """The directory of the logs, and its total and free space. Raises StoreError."""
        return await self._resources.env.run_blocking(self._resources.store.space)

    async def stored(self, topic: str) -> list[int]:
        """The indexes of the partitions of `topic` that have a log in the store, opened or not. Raises StoreError."""
        keys = await self._resources.env.run_blocking(self._resources.store.partitions)
        described = None if self._image is None else self._image.topic(topic)
        # A log with another id belongs to a deleted topic of that name and is not deleted yet.
        return [key.index for key in keys if described is not None and key.topic_id == described.topic_id]

    def check_lag(self) -> None:
        """Let the leaders check for lagging followers; see `LeadingLog.watch_lag`."""
        for replica in self._replicas.values():
            replica.watch_lag()

    def wake_all(self) -> None:
        """Wake every waiting Fetch: the broker stops."""
        for replica in self._replicas.values():
            replica.notify()

    async def close(self) -> bool:
        """Finish pending writes and close all logs. Returns False if one could not be closed, see `Replica.close`."""
        replicas = list(self._replicas.values())
        failed: list[Replica] = []

        async def close(replica: Replica) -> None:
            if not await replica.close():
                failed.append(replica)

        for start in range(0, len(replicas), CLOSED_AT_ONCE):
            async with trio.open_nursery() as nursery:
                for replica in replicas[start : start + CLOSED_AT_ONCE]:
                    nursery.start_soon(close, replica)
        self._replicas.clear()
        return not failed
