"""The common part of a broker's coordinators: one shard for each partition of an internal topic, and their timers.

A broker has the shards of the partitions that it leads, one for each leader epoch. It loads a shard when the image's
delta makes it the leader, and stops it when another broker becomes the leader. A shard whose partition has a log is
loaded in the background when the broker starts; until then requests get COORDINATOR_LOAD_IN_PROGRESS. A partition
without a log has an empty shard, created by the first request; later requests wait for that.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

import trio

from odradek.coordinator.contract import Outcome, Shard, Token
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.partitioner import partition_for
from odradek.gateway.coordinators.runtime import RELOAD_RETRY_MS, ShardRuntime, ShardState, SteadyClock
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.gateway.metadata.client import ControllerClient
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.replication.replicas import Replicas
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=Shard)

FIRST_EPOCH: Final = 0
"""The leader epoch of a new partition, in which no earlier leader can have written records."""

DRAIN_TURNS: Final = 8
"""The number of scheduler turns allowed for finding the connections that have received requests.

One is enough for a request on an open connection, some more for a connection that was only just accepted.
"""


class Coordinator(Generic[S]):
    """All shards of one kind on this broker. `make` builds an empty one, `publish` is for `ShardRuntime`."""

    def __init__(
        self,
        topic: str,
        metadata: MetadataPublisher,
        controller: ControllerClient,
        replicas: Replicas,
        env: Environment,
        make: Callable[[], S],
        publish: Callable[[S], Callable[[], None]] | None = None,
        *,
        write_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._clock = SteadyClock(env, catches_up=True)
        self._make = make
        self._publish = publish
        self._write_timeout_ms = write_timeout_ms
        self._shards: dict[int, ShardRuntime[S]] = {}
        self._led: dict[int, int] = {}
        """The partitions of the internal topic that this broker leads, with the leader epoch."""
        self._to_load: dict[int, None] = {}
        self._all_known = False
        self._earlier = Signal()
        self._wake_at_ms: float = 0

    async def ensure_topic(self) -> None:
        """Create the internal topic unless it exists. Raises CoordinatorUnavailable."""
        if self._metadata.image.topic(self.topic) is None:
            refused = (await self._controller.auto_create([self.topic]))[self.topic]
            if refused is not None:
                log.error("cannot create topic=%s cause=%s", self.topic, refused)
                raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def call(
        self, key: str, operation: Callable[[S, Token, int], Outcome], reply_type: type[R], *, reads: bool = False
    ) -> R:
        """Run `operation` on the shard of `key`, and wait for its reply. Raises CoordinatorUnavailable.

        If it only `reads`, it also runs while the shard's log refuses writes.
        """
        reply = await self.runtime_of(key).call(operation, reads=reads)
        assert isinstance(reply, reply_type)
        return reply

    async def ask(self, key: str, question: Callable[[S, int], R]) -> R:
        """The result of `question(shard, now_ms)` on the shard of `key`; see `ShardRuntime.ask`.

        Raises CoordinatorUnavailable.
        """
        return await self.runtime_of(key).ask(question)

    async def begin(
        self, key: str, operation: Callable[[S, Token, int], Outcome]
    ) -> tuple[Completion[object], Callable[[], None]]:
        """Run `operation` on the shard of `key` without waiting for its reply. Raises CoordinatorUnavailable.

        Returns the completion of the reply, and a function that the caller must call at the end in any case.
        """
        runtime = self.runtime_of(key)
        token, reply = await runtime.begin(operation)
        return reply, partial(runtime.abandon, token)

    def active_shards(self) -> list[S]:
        """The loaded shards, for reading only, from any thread."""
        return [runtime.shard for runtime in list(self._shards.values()) if runtime.state is ShardState.ACTIVE]

    async def call_all(self, operation: Callable[[S, Token, int], Outcome], reply_type: type[R]) -> list[R]:
        """Run `operation` on every shard with a log, except those that move to another broker meanwhile.

        Raises CoordinatorUnavailable, also while any of them loads.
        """
        if not self._all_known:
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        replies: list[R] = []
        for partition, runtime in list(self._shards.items()):
            try:
                reply = await runtime.call(operation, reads=True)
            except CoordinatorUnavailable:
                if runtime.state is ShardState.STOPPED and partition not in self._led:
                    continue  # the new leader answers for it
                raise
            assert isinstance(reply, reply_type)
            replies.append(reply)
            await trio.lowlevel.checkpoint()  # a shard may have a thousand groups
        return replies

    def partition(self, key: str) -> int:
        """The partition of the internal topic that owns the key.

        Raises CoordinatorUnavailable while there is no topic.
        """
        topic = self._metadata.image.topic(self.topic)
        if topic is None:
            raise CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR)
        return partition_for(key, len(topic.partitions))

    def runtime_of(self, key: str) -> ShardRuntime[S]:
        """The shard that owns the key. Raises CoordinatorUnavailable if this broker does not lead its partition."""
        return self.runtime(self.partition(key))

    def runtime(self, partition: int) -> ShardRuntime[S]:
        """The shard of a partition, loaded or not. Raises CoordinatorUnavailable if this broker does not lead it."""
        runtime = self._shards.get(partition)
        if runtime is None:
            replica = self._replicas.get(self.topic, partition)
            epoch = self._led.get(partition)
            if replica is None or epoch is None:
                raise CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR)
            runtime = ShardRuntime(
                replica,
                self._clock,
                self._make,
                publish=self._publish,
                on_deadline=self._on_deadline,
                empty=self._all_known and epoch == FIRST_EPOCH,  # otherwise another broker may have written
                write_timeout_ms=self._write_timeout_ms,
            )
            self._shards[partition] = runtime
        return runtime

    def on_published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Stop shards of partitions that others now lead, load those that this broker leads; handle deleted topics."""
        deleted = [topic.name for topic in delta.topics.deleted_topics()]
        if deleted:
            self.topics_deleted(deleted)
        topic = image.topic(self.topic)
        if topic is not None:
            for index in delta.topics.changed.get(topic.topic_id, ()):
                part = topic.partitions[index]
                leads = self._replicas.may_lead and part.leader == self._replicas.node_id
                self._assign(index, part.leader_epoch if leads else None)

    def _assign(self, index: int, epoch: int | None) -> None:
        """Note that this broker leads the partition in `epoch`; None if it does not lead it.

        Each epoch has its own shard: pending requests of the previous one are answered with NOT_COORDINATOR.
        """
        if self._led.get(index) == epoch:
            return
        runtime = self._shards.pop(index, None)
        if runtime is not None:
            runtime.stop()
        if epoch is None:
            self._led.pop(index, None)
            self._to_load.pop(index, None)
            return
        self._led[index] = epoch
        if epoch > FIRST_EPOCH:
            self._to_load[index] = None
            self._earlier.wake()

    def topics_deleted(self, names: list[str]) -> None:
        """Remove all shards if the internal topic itself was deleted."""
        if self.topic in names:
            log.warning("topic=%s was deleted, and all that it described with it", self.topic)
            self.stop()
            self._shards.clear()
            self._led.clear()
            self._to_load.clear()

    def _on_deadline(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and deadline_ms < self._wake_at_ms:
            self._earlier.wake()

    async def run(self, catch_up: Callable[[], Awaitable[None]]) -> None:
        """Load the shards that have a log, and call shards when their timers are due; until cancelled.

        A shard that loads slowly does not hold up the others. `catch_up` waits until the requests that connections are
        known to have received are being handled.
        """
        async with trio.open_nursery() as nursery:
            self._to_load |= dict.fromkeys(await self._stored())
            self._load_led(nursery)
            self._all_known = True
            while True:
                await self._sleep_until_due()
                self._load_led(nursery)
                await self._drain_received_requests(catch_up)
                for runtime in list(self._shards.values()):
                    reload_at_ms = runtime.reload_at_ms
                    if reload_at_ms is not None and reload_at_ms <= self._clock.now_ms():
                        nursery.start_soon(self._load, runtime)
                    if runtime.on_time():
                        await trio.lowlevel.checkpoint()  # the next shard may be due, too, with as much work

    def _load_led(self, nursery: trio.Nursery) -> None:
        """Begin to load the shards that are to be loaded, of the partitions that this broker leads."""
        wanted, self._to_load = self._to_load, {}
        for partition in wanted:
            if partition in self._led:
                nursery.start_soon(self._load, self.runtime(partition))

    async def _stored(self) -> Sequence[int]:
        """The partitions that have a log; repeated until the store can list them."""
        while True:
            try:
                return await self._replicas.stored(self.topic)
            except StoreError as error:
                key = ("stored", self.topic)
                message = "cannot list the logs topic=%s, tried again cause=%s"
                self._replicas.repeats.note(key, log, logging.ERROR, message, self.topic, error)
                await trio.sleep(RELOAD_RETRY_MS / 1000)

    async def _load(self, runtime: ShardRuntime[S]) -> None:
        if runtime.state is not ShardState.NEW:
            return
        try:
            await runtime.load()
        except CoordinatorUnavailable:
            return  # already logged, and tried again later
        except Exception:  # a defect of one shard must not end the broker
            log.exception("coordinator shard not loaded, it is tried again partition=%s", runtime.replica.key)

    async def _sleep_until_due(self) -> None:
        now_ms = self._clock.now_ms()
        due = [runtime.deadline_ms for runtime in self._shards.values() if runtime.deadline_ms is not None]
        due += [runtime.reload_at_ms for runtime in self._shards.values() if runtime.reload_at_ms is not None]
        self._wake_at_ms = min(due, default=math.inf)
        await self._earlier.wait(max(self._wake_at_ms - now_ms, 0))
        self._wake_at_ms = 0

    async def _drain_received_requests(self, catch_up: Callable[[], Awaitable[None]]) -> None:
        """Wait until the requests that connections have received are handled.

        After a suspension of this process (a busy machine, a paused container), sessions are past their deadlines
        although their heartbeats arrived in time. Sockets and timers then wake in arbitrary order, so the requests are
        handled first.
        """
        for _ in range(DRAIN_TURNS):
            await trio.lowlevel.checkpoint()
        await catch_up()

    def stop(self) -> None:
        """Fail all pending replies with NOT_COORDINATOR."""
        for runtime in self._shards.values():
            runtime.stop()
