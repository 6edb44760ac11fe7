"""Assigns partitions to fetchers: `num.replica.fetchers` tasks per leader, updated with each image.

The image has the leader of each partition. Partitions of one leader are distributed over its fetchers by a hash of
topic and index that is the same in every process. A fetcher without partitions ends.
"""

from collections.abc import Callable
from zlib import crc32

import trio

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.replication.fetcher import FetcherSettings, LeaderEndpoint, ReplicaFetcher
from odradek.gateway.replication.replica import Replica

_TopicPartition = tuple[str, int]
FetcherLag = tuple[int, int, str, int, int]
"""The leader, the number of the fetcher, topic and index, and the follower's lag in offsets."""


class ReplicaFetchers:
    """The fetchers of one broker; their tasks run in `nursery`.

    `replica_of(topic, index)` returns this broker's replica, or None; `connect(leader_id, number)` returns an endpoint
    for that fetcher, which uses the leader's address in the newest image.
    """

    def __init__(
        self,
        node_id: int,
        env: Environment,
        nursery: trio.Nursery,
        replica_of: Callable[[str, int], Replica | None],
        connect: Callable[[int, int], LeaderEndpoint],
        settings: Callable[[], FetcherSettings],
        repeats: Repeats,
    ) -> None:
        self._node_id = node_id
        self._env = env
        self._nursery = nursery
        self._replica_of = replica_of
        self._connect = connect
        self._settings = settings
        self._repeats = repeats
        self._image: MetadataImage | None = None
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[_TopicPartition, tuple[int, int]] = {}

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Fetch the partitions that this broker follows in the image from their leaders. Called after `Replicas`."""
        self._image = image
        for topic in delta.topics.deleted_topics():
            for index in range(len(topic.partitions)):
                self._remove((topic.name, index))
        count = self._settings().fetchers
        for topic_id, indexes in delta.topics.changed.items():
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                for index in indexes:
                    self._update((topic.name, index), topic.partitions[index], count)
        for key, fetcher in list(self._fetchers.items()):
            if not fetcher.partitions:
                del self._fetchers[key]
                fetcher.stop()

    def _update(self, topic_partition: _TopicPartition, partition: PartitionImage, count: int) -> None:
        self._remove(topic_partition)
        leader = partition.leader
        if leader in (-1, self._node_id) or self._node_id not in partition.replicas:
            return
        replica = self._replica_of(*topic_partition)
        if replica is None:
            return
        number = crc32(f"{topic_partition[0]}-{topic_partition[1]}".encode()) % count
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self._start(leader, number)
        fetcher.add(replica)
        self._fetcher_of[topic_partition] = leader, number

    def _start(self, leader: int, number: int) -> ReplicaFetcher:
        endpoint = self._connect(leader, number)
        fetcher = ReplicaFetcher(
            self._node_id, leader, endpoint, self._env, self._settings, self._own_epoch, self._repeats
        )
        self._fetchers[leader, number] = fetcher
        self._nursery.start_soon(fetcher.run)
        return fetcher

    def _remove(self, topic_partition: _TopicPartition) -> None:
        key = self._fetcher_of.pop(topic_partition, None)
        if key is not None and key in self._fetchers:
            self._fetchers[key].remove(topic_partition)

    def _own_epoch(self) -> int | None:
        """The epoch of this broker's registration in the published image."""
        own = None if self._image is None else self._image.brokers.get(self._node_id)
        return None if own is None else own.epoch

    def lags(self) -> list[FetcherLag]:
        """See `ReplicationManager.lags`."""
        return [
            (leader, number, topic, index, lag)
            for (leader, number), fetcher in list(self._fetchers.items())
            for (topic, index), lag in list(fetcher.lags.items())
        ]

    def stop(self) -> None:
        """End all fetchers."""
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._fetchers.clear()
        self._fetcher_of.clear()
