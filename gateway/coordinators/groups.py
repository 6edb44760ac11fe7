"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from odradek.coordinator.contract import Outcome, Producer, Reply, Token
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS
from odradek.gateway.coordinators.errors import unavailable
from odradek.gateway.coordinators.host import Coordinator
from odradek.gateway.coordinators.markers import BegunMarker, Marker
from odradek.gateway.coordinators.regexes import TopicRegexes
from odradek.gateway.coordinators.runtime import ShardState
from odradek.gateway.coordinators.verification import verified
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.metadata.client import ControllerClient
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.transaction_guard import GuardedBatch, VerificationGuard
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.coordinator.groups.shard import GroupShard

R = TypeVar("R")
GroupOperation = Callable[["GroupShard", Token, int], Outcome]

OFFSETS_TOPIC: Final = CONSUMER_OFFSETS

PREPARED_FROM: Final = 500
"""The number of offsets from which on a commit's records are made in a worker thread: some milliseconds of work."""

UNAVAILABLE: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Results of a verification for a partition that this broker does not serve."""

DELETED_AT_ONCE: Final = 1000
"""The number of offsets in deleted topics removed before the deletion is answered: some ten milliseconds of work."""


class GroupCoordinator(Coordinator["GroupShard"]):
    """All group shards of this broker."""

    def __init__(
        self,
        metadata: MetadataPublisher,
        controller: ControllerClient,
        replicas: Replicas,
        env: Environment,
        config: GroupConfig,
        regexes: TopicRegexes,
        *,
        commit_timeout_ms: int,
    ) -> None:
        self.regexes = regexes
        self._config = config
        self._env = env
        super().__init__(
            OFFSETS_TOPIC,
            metadata,
            controller,
            replicas,
            env,
            lambda: _group_shard(self._config, metadata, regexes),
            write_timeout_ms=commit_timeout_ms,
        )

    def configure(self, config: GroupConfig) -> None:
        """Apply these settings to all groups."""
        if config != self._config:
            self._config = config
            for runtime in self._shards.values():
                runtime.change(lambda shard: shard.configure(config))

    async def prepared(self, count: int, make: Callable[[int], R]) -> R | None:
        """The result of `make(now_ms)`, called in a worker thread; None, without a call, for a small `count`.

        It is for the records of a commit, which are most of an operation's cost and depend on no state.
        """
        if count < PREPARED_FROM:
            return None
        now_ms = self._clock.now_ms()
        return await self._env.run_blocking(lambda: make(now_ms))

    async def call_in_transaction(
        self,
        group_id: str,
        producer: Producer,
        verify: Callable[[Sequence[int]], Awaitable[Mapping[int, ErrorCode]]],
        operation: GroupOperation,
        reply_type: type[R],
        *,
        adds_partition: bool = False,
    ) -> R | ErrorCode:
        """Run an `operation` that writes in a producer's transaction, and wait for its reply.

        `verify(partitions)` calls the transaction coordinator, which checks that these partitions of the offsets topic
        are in the transaction, or adds them if `adds_partition` (KIP-890). It is called before the first write of the
        transaction to the group's partition. Returns an error if they are not in it, or if it has ended meanwhile.
        Raises CoordinatorUnavailable.
        """
        partition = self.partition(group_id)
        runtime = self.runtime(partition)
        replica = runtime.replica
        try:
            guard = await _guard(replica, producer, verify, adds_partition=adds_partition)
            if isinstance(guard, ErrorCode):
                return guard

            def guarded(shard: "GroupShard", token: Token, now_ms: int) -> Outcome:
                refusal = replica.leader.check_transactional(*producer, guard)
                if refusal is not None:
                    return Outcome((), (Reply(token, refusal.error),))
                return operation(shard, token, now_ms)

            reply = await runtime.call(guarded)
        except PartitionUnavailable as error:
            raise unavailable(error) from error
        assert isinstance(reply, reply_type | ErrorCode)
        return reply

    def is_loaded(self, partition: int) -> bool:
        """True if `end_transaction` can be called now."""
        runtime = self._shards.get(partition)
        return runtime is not None and runtime.state is ShardState.ACTIVE

    async def ensure_loaded(self, partition: int) -> None:
        """Load the shard of a partition unless it is loaded. Raises CoordinatorUnavailable."""
        await self.runtime(partition).ensure_active()

    def end_transaction(self, partition: int, marker: Marker) -> BegunMarker:
        """Append a transaction's marker, and commit or drop its offsets; both count once it is committed (KAFKA-17507).

        The shard must be loaded. Raises CoordinatorUnavailable; PartitionUnavailable with NOT_ENOUGH_REPLICAS.
        """
        return self.runtime(partition).end_transaction(marker)

    def topics_deleted(self, names: list[str]) -> None:
        """Remove the offsets committed for deleted topics; all groups if the offsets topic itself is deleted.

        DELETED_AT_ONCE of them are removed now, which is almost always all; the others when the shards' timers are due.
        """
        super().topics_deleted(names)
        limit = DELETED_AT_ONCE

        def remove(shard: "GroupShard", now_ms: int) -> Outcome:
            nonlocal limit
            outcome = shard.on_topics_deleted(names, now_ms, limit)
            limit -= len(outcome.records)
            return outcome

        for runtime in self._shards.values():
            runtime.run(remove)


async def _guard(
    replica: Replica,
    producer: Producer,
    verify: Callable[[Sequence[int]], Awaitable[Mapping[int, ErrorCode]]],
    *,
    adds_partition: bool,
) -> VerificationGuard | ErrorCode | None:
    """The result of verifying one partition of the offsets topic. Raises PartitionUnavailable."""
    await replica.ensure_open()
    batches = {replica.key.index: GuardedBatch(*producer)}
    outcomes = await verified(batches, lambda _: replica, verify, adds_partition=adds_partition)
    guard = outcomes.get(replica.key.index)
    if isinstance(guard, ErrorCode) and guard in UNAVAILABLE:
        raise PartitionUnavailable(guard, replica.key)
    return guard


def _group_shard(config: GroupConfig, metadata: MetadataPublisher, regexes: TopicRegexes) -> "GroupShard":
    """A new shard. Imports the groups' decision code here, so that a broker without groups starts faster."""
    from odradek.coordinator.groups.shard import GroupShard

    return GroupShard(config, lambda: metadata.image, regexes)
