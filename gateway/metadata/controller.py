"""The controller: decides on changes of the cluster's metadata, and writes them to the metadata log.

It runs the metadata shard. A decision is published (`publisher.py`) once it is committed, before the reply.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar, cast
from uuid import UUID

import trio

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import Outcome, Token
from odradek.coordinator.metadata.controller.brokers import BrokerRegistration, found_cluster, register_broker
from odradek.coordinator.metadata.controller.shard import MetadataShard, Operation
from odradek.coordinator.metadata.image.image import ListenerImage
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.gateway.coordinators.runtime import ShardRuntime, SteadyClock
from odradek.gateway.env.durations import RecentTimes
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import CoordinatorUnavailable, StartError
from odradek.gateway.metadata.active import QuorumLeadership
from odradek.gateway.metadata.ids import random_ids
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.quorum import QuorumDriver
from odradek.wire.errors import ErrorCode

log = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")


class Controller:
    """The metadata shard over its log, while this node is the active controller.

    All methods that wait raise CoordinatorUnavailable while the log is not available, with NOT_COORDINATOR while
    another node is the active controller. `await_exported`, if set, waits until processes that use the metadata outside
    the broker have the published state; decisions return after it. `commit_times` are the times from decision to
    commit.
    """

    def __init__(
        self,
        quorum: QuorumDriver,
        env: Environment,
        config: MetadataConfig,
        publisher: MetadataPublisher,
        leadership: QuorumLeadership,
    ) -> None:
        self._quorum = quorum
        self._env = env
        self._leadership = leadership
        self._config = config
        self._publisher = publisher
        self._registration: BrokerRegistration | None = None
        self._is_registered = False
        self.await_exported: Callable[[], Awaitable[None]] | None = None
        self.commit_times = RecentTimes()
        self._runtime = self._make_runtime()

    def _make_runtime(self) -> ShardRuntime[MetadataShard]:
        return ShardRuntime(
            self._quorum.replica,
            SteadyClock(self._env),
            self._make_shard,
            publish=self._to_publish,
            start=lambda: self._publisher.logged.offset + 1,
        )

    def _make_shard(self) -> MetadataShard:
        """A shard that begins with the published image: after a failed write only later records are replayed."""
        return MetadataShard(self._config, random_ids(self._env), self._publisher.logged)

    def _to_publish(self, shard: MetadataShard) -> Callable[[], None]:
        delta, began_us = shard.take_delta(), self._env.monotonic_us()

        def publish() -> None:
            now_us = self._env.monotonic_us()
            self.commit_times.add(now_us - began_us, now_us)
            self._publisher.publish(delta)

        return publish

    @property
    def epoch(self) -> int | None:
        """The quorum's epoch in which this controller decides."""
        return self._leadership.epoch

    async def load(self) -> None:
        """Replay the metadata log of an open quorum of which this node is the only voter."""
        await self.activate(self._quorum.core.epoch)

    async def activate(self, epoch: int) -> None:
        """Begin to decide: this node leads in `epoch`, and all records of the log are committed."""
        self._runtime = self._make_runtime()
        await self._runtime.load()
        self._leadership.epoch = epoch

    async def found(self, cluster_id: str) -> None:
        """Write the first records of the cluster, unless they exist."""
        await self._decide(found_cluster, cluster_id)

    def deactivate(self) -> None:
        """Stop deciding; waiting requests fail with NOT_COORDINATOR."""
        self._leadership.epoch = None
        self._runtime.stop()

    def extent(self) -> tuple[int, int]:
        """The metadata log's high watermark and end offset. Raises PartitionUnavailable while it is unavailable."""
        log = self._runtime.replica.log
        return log.high_watermark, log.log_end_offset

    async def close(self) -> None:
        """Wait for writes in flight, and close the log."""
        await self._runtime.replica.close()

    async def register(
        self, cluster_id: str, listeners: Mapping[str, tuple[str, int]], rack: str | None, incarnation_id: UUID
    ) -> None:
        """Register this broker at its start; the first registration of a cluster writes its first records.

        While the metadata log cannot be written (a full disk), a broker of an existing cluster serves anyway: the image
        shows its current state, and the next change of metadata writes its registration first. Raises StartError, and
        CoordinatorUnavailable if there is no cluster yet.
        """
        self._registration = BrokerRegistration(
            node_id=self._config.node_id,
            incarnation_id=incarnation_id,
            cluster_id=cluster_id,
            listeners=[ListenerImage(name, host, port) for name, (host, port) in listeners.items()],
            rack=rack,
        )
        try:
            await self._register(self._registration)
        except CoordinatorUnavailable:
            if not self._publisher.logged.cluster_id:
                raise
            log.warning("the metadata log takes no writes: this broker serves, and is registered with the next change")
            self._publisher.show_broker(self._registration)

    async def _register(self, registration: BrokerRegistration) -> None:
        reply = await self._decide(register_broker, registration)
        if isinstance(reply, RefusedError):
            raise StartError(str(reply)) from reply
        self._is_registered = True

    async def decide(self, operation: Operation[Q, R], request: Q) -> R:
        """Decide on a request; the change is committed and published when this returns.

        Cancelling the caller does not undo it. Only the active controller decides.
        """
        if self._registration is not None and not self._is_registered:
            await self._register(self._registration)
        decided = await self._decide(operation, request)
        if self.await_exported is not None:
            await self.await_exported()
        return decided

    async def _decide(self, operation: Operation[Q, R], request: Q) -> R:
        if not self._leadership.is_active:
            raise CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR)

        def run(shard: MetadataShard, token: Token, now_ms: int) -> Outcome:
            self._quorum.replica.announce()
            return shard.decide(operation, request, self._runtime.next_offset, token, now_ms)

        return cast("R", await self._runtime.call(run))

    def begin_sessions(self) -> None:
        """Restart the sessions of all brokers: this process was suspended, and received no heartbeats meanwhile."""
        self._runtime.run(MetadataShard.on_loaded)

    async def run_periodic_tasks(self) -> None:
        """Run due tasks of the active controller: fence brokers with expired sessions, elect preferred leaders."""
        while self._leadership.is_active and self._runtime.on_time():
            await trio.lowlevel.checkpoint()

    async def auto_create(self, names: Collection[str]) -> Mapping[str, RefusedError | None]:
        """Create the topics of these names that do not exist; None for a name whose topic exists now."""
        from odradek.coordinator.metadata.controller.auto_create import auto_create_topics

        outcomes: dict[str, RefusedError | None] = {}
        for part in in_parts(tuple(names), ()):
            outcomes |= await self.decide(auto_create_topics, part)
        return outcomes
