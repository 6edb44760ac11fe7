"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets`, and their clock.

A shard whose partition has a log is loaded when the broker starts, in the background; requests in the meantime are told
COORDINATOR_LOAD_IN_PROGRESS. Any other is empty and comes alive with its first group.
"""

import logging
import math
from collections.abc import Callable
from typing import Final, TypeVar

import trio

from coordinator.groups.config import GroupConfig
from coordinator.groups.partitioner import partition_for
from coordinator.groups.shard import GroupShard
from coordinator.shard import Outcome, Token
from gateway.environment import Environment
from gateway.runtime.metadata import MetadataService
from gateway.runtime.replicas import Replicas
from gateway.runtime.shards import CoordinatorError, ShardRuntime, ShardState, SteadyClock
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

R = TypeVar("R")
GroupOperation = Callable[[GroupShard, Token, int], Outcome]

OFFSETS_TOPIC: Final = "__consumer_offsets"
RELOAD_RETRY_MS: Final = 1000
"""How soon a shard that had to be discarded is loaded again when nobody asks for it."""


class GroupCoordinator:
    """All group shards of this broker."""

    def __init__(
        self,
        metadata: MetadataService,
        replicas: Replicas,
        env: Environment,
        config: GroupConfig,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._env = env
        self._clock = SteadyClock(env)
        self._config = config
        self._shards: dict[int, ShardRuntime[GroupShard]] = {}
        self._all_known = False
        self._earlier = trio.Event()
        self._wake_at_ms: float = 0

    async def ensure_topic(self) -> None:
        """Create the offsets topic unless it is there. Raises CoordinatorError."""
        if self._metadata.image.topic(OFFSETS_TOPIC) is None:
            refused = (await self._metadata.auto_create([OFFSETS_TOPIC]))[OFFSETS_TOPIC]
            if refused is not None:
                log.error("cannot create topic=%s cause=%s", OFFSETS_TOPIC, refused)
                raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def call(self, group_id: str, operation: GroupOperation, reply_type: type[R]) -> R:
        """Run `operation` on the group's shard and wait for its reply. Raises CoordinatorError."""
        reply = await self._shard(self._partition(group_id)).call(operation)
        assert isinstance(reply, reply_type)
        return reply

    async def call_all(self, operation: GroupOperation, reply_type: type[R]) -> list[R]:
        """Run `operation` on every shard that has groups. Raises CoordinatorError, also while any of them loads."""
        if not self._all_known:
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        replies: list[R] = []
        for runtime in list(self._shards.values()):
            reply = await runtime.call(operation)
            assert isinstance(reply, reply_type)
            replies.append(reply)
        return replies

    def _partition(self, group_id: str) -> int:
        topic = self._metadata.image.topic(OFFSETS_TOPIC)
        if topic is None:
            raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
        return partition_for(group_id, len(topic.partitions))

    def _shard(self, partition: int) -> ShardRuntime[GroupShard]:
        runtime = self._shards.get(partition)
        if runtime is None:
            replica = self._replicas.get(OFFSETS_TOPIC, partition)
            if replica is None:
                raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
            runtime = ShardRuntime(
                replica, self._clock, lambda: GroupShard(self._config), on_deadline=self._on_deadline
            )
            self._shards[partition] = runtime
        return runtime

    def topics_deleted(self, names: list[str]) -> None:
        """Forget the offsets committed for topics that are gone; with the offsets topic all groups go."""
        if OFFSETS_TOPIC in names:
            log.warning("topic=%s was deleted, and all groups and their offsets with it", OFFSETS_TOPIC)
            self.stop()
            self._shards.clear()
        for runtime in self._shards.values():
            runtime.run(lambda shard, now_ms: shard.on_topics_deleted(names, now_ms))

    def _on_deadline(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and deadline_ms < self._wake_at_ms:
            self._earlier.set()

    async def run(self) -> None:
        """Load the shards that have a log, then call shards when something in them is due; until cancelled."""
        async with trio.open_nursery() as nursery:
            for partition in await self._replicas.stored(OFFSETS_TOPIC):
                nursery.start_soon(self._load, self._shard(partition))
            self._all_known = True
        while True:
            await self._sleep_until_due()
            for runtime in list(self._shards.values()):
                if runtime.discarded:
                    await self._load(runtime)
                runtime.on_time()

    async def _load(self, runtime: ShardRuntime[GroupShard]) -> None:
        if runtime.state is not ShardState.NEW:
            return
        try:
            await runtime.load()
        except CoordinatorError:
            return  # said in the log; the next request tries again

    async def _sleep_until_due(self) -> None:
        now_ms = self._clock.now_ms()
        due = [runtime.deadline_ms for runtime in self._shards.values() if runtime.deadline_ms is not None]
        if any(runtime.discarded for runtime in self._shards.values()):
            due.append(now_ms + RELOAD_RETRY_MS)
        self._wake_at_ms, self._earlier = min(due, default=math.inf), trio.Event()
        with trio.move_on_after(max(self._wake_at_ms - now_ms, 0) / 1000):
            await self._earlier.wait()
        self._wake_at_ms = 0

    def stop(self) -> None:
        """Tell everyone who waits that this is no longer their coordinator."""
        for runtime in self._shards.values():
            runtime.stop()
