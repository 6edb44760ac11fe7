"""The transaction coordinator of this broker: one shard for each partition of `__transaction_state`, and the markers.

    EndTxn ─► shard decides ─► Prepare* committed ─► reply
                                     └─► a marker into every partition ─► all committed ─► Complete* ─► waiting requests

A committed decision is always carried out: if a partition's disk fails, its marker is retried until the partition is
available or deleted. After a crash, loading the shard finds the decision, and the markers are written again.

While markers are being written, Kafka answers requests for the id with CONCURRENT_TRANSACTIONS, and clients repeat them
after a pause. Here such a request waits up to a second for the markers, which usually avoids the repetition.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from odradek.coordinator.contract import Outcome, Producer, Token
from odradek.coordinator.metadata.image.image import NO_LEADER
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.version import EPOCH_PER_TRANSACTION, FEATURE, PLAIN
from odradek.gateway.coordinators.brokers import OtherBrokers
from odradek.gateway.coordinators.groups import GroupCoordinator
from odradek.gateway.coordinators.host import Coordinator
from odradek.gateway.coordinators.markers import MARKER_REFUSED, BegunMarker, EncodedMarker, Marker, append_marker
from odradek.gateway.coordinators.producer_ids import ProducerIds
from odradek.gateway.coordinators.runtime import ShardRuntime, ShardState
from odradek.gateway.env.completion import Completion, Gathered
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable
from odradek.gateway.metadata.client import ControllerClient
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.peers import PeerCallError
from odradek.gateway.replication.recovery import Episodes
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.coordinator.transactions.add import ProducerIdentity
    from odradek.coordinator.transactions.end import Ended
    from odradek.coordinator.transactions.shard import TransactionShard
    from odradek.coordinator.transactions.table import Partitions, Transaction
    from odradek.gateway.coordinators.remote_transactions import RemoteMarkers
    from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger(__name__)

R = TypeVar("R")

MARKER_WAIT_MS: Final = 1000
"""The maximum wait of a request for the markers of the previous transaction."""
MARKED_AT_ONCE: Final = 100
"""The number of markers of one transaction that are begun before other tasks are scheduled."""
OPENED_AT_ONCE: Final = 4
"""The number of partitions opened concurrently for markers: all that are opened together continue in one turn."""
MARKER_RETRY_MS: Final = 100
"""The pause before a failed marker is retried."""


class TransactionCoordinator(Coordinator["TransactionShard"]):
    """All transaction shards of this broker. Markers are written by tasks in `nursery`, which must outlive it.

    `connect(purpose)` makes connections to other brokers. Markers have their own: their answers wait for followers, and
    Produce waits for the answers to the other requests.
    """

    def __init__(
        self,
        metadata: MetadataPublisher,
        controller: ControllerClient,
        replicas: Replicas,
        env: Environment,
        config: TransactionConfig,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        connect: Callable[[str], OtherBrokers],
        nursery: trio.Nursery,
    ) -> None:
        brokers = connect("transactions")
        super().__init__(
            TRANSACTION_STATE,
            metadata,
            controller,
            replicas,
            env,
            lambda: _transaction_shard(config, metadata),
            self._to_finish,
            write_timeout_ms=brokers.timeout_ms,
        )
        self._env = env
        self._groups = groups
        self._producer_ids = producer_ids
        self._brokers = brokers
        self._marker_brokers = connect("markers")
        self._nursery = nursery
        self._failed_markers = Episodes(log, replicas.repeats)
        self._opening = trio.CapacityLimiter(OPENED_AT_ONCE)
        self._tasks: dict[str, trio.CancelScope] = {}
        """By transactional id: the task that writes the markers of its decision."""
        self._finishing: dict[str, trio.Event] = {}
        """By transactional id; set when the transaction is completed, or the task that completes it has failed."""

    def runtime_of(self, key: str) -> ShardRuntime["TransactionShard"]:
        """The shard of a transactional id. Raises CoordinatorUnavailable.

        An empty id is INVALID_REQUEST at every broker, as in Kafka, and not only at the one that would coordinate it.
        """
        if not key:
            raise CoordinatorUnavailable(ErrorCode.INVALID_REQUEST)
        return super().runtime_of(key)

    # Producers

    async def init_producer_id(self, request: "InitProducerIdRequest") -> "InitProducerIdResponse":
        """Return the producer id and epoch for a transactional id. Raises CoordinatorUnavailable."""
        assert request.transactional_id is not None
        ask = partial(self._init_producer_id, request.transactional_id, request)
        return await self._retry_after_markers(request.transactional_id, ask, lambda response: response.error_code)

    async def _init_producer_id(
        self, transactional_id: str, request: "InitProducerIdRequest"
    ) -> "InitProducerIdResponse":
        from odradek.coordinator.transactions.init import NeedsProducerId
        from odradek.wire.messages.init_producer_id import InitProducerIdResponse

        def operation(shard: "TransactionShard", token: Token, now_ms: int) -> Outcome:
            return shard.init_producer_id(request, fresh_id, token, now_ms)

        fresh_id: int | None = None
        reply = await self.call(transactional_id, operation, object)
        if isinstance(reply, NeedsProducerId):
            fresh_id = await self._producer_ids.allocate()
            reply = await self.call(transactional_id, operation, object)
        assert isinstance(reply, InitProducerIdResponse)
        return reply

    async def add_partitions(self, producer: "ProducerIdentity", partitions: "Partitions", version: int) -> ErrorCode:
        """Add partitions to the producer's transaction, all or none. Raises CoordinatorUnavailable.

        `version` is the `transaction.version` that the producer follows.
        """

        def ask() -> Awaitable[ErrorCode]:
            return self.call(
                producer.transactional_id,
                lambda shard, token, now_ms: shard.add_partitions(producer, partitions, version, token, now_ms),
                ErrorCode,
            )

        return await self._retry_after_markers(producer.transactional_id, ask, _itself)

    async def add_offsets(self, producer: "ProducerIdentity", group_id: str) -> ErrorCode:
        """Add the partition with a group's offsets to the producer's transaction. Raises CoordinatorUnavailable."""
        partition = self._groups.partition(group_id)
        return await self.add_partitions(producer, {CONSUMER_OFFSETS: frozenset({partition})}, PLAIN)

    async def end_transaction(self, producer: "ProducerIdentity", *, committed: bool, version: int) -> "Ended":
        """Commit or abort a transaction. On return the decision is committed in the log; markers are written later.

        `version` is the `transaction.version` that the producer follows. Raises CoordinatorUnavailable.
        """
        ask = partial(self._end_transaction, producer, committed, version)
        return await self._retry_after_markers(producer.transactional_id, ask, lambda ended: ended.error)

    async def _end_transaction(self, producer: "ProducerIdentity", committed: bool, version: int) -> "Ended":
        from odradek.coordinator.transactions.end import Ended
        from odradek.coordinator.transactions.init import NeedsProducerId

        def operation(shard: "TransactionShard", token: Token, now_ms: int) -> Outcome:
            return shard.end_transaction(producer, committed, version, fresh_id, token, now_ms)

        fresh_id: int | None = None
        reply = await self.call(producer.transactional_id, operation, object)
        if isinstance(reply, NeedsProducerId):
            fresh_id = await self._producer_ids.allocate()
            reply = await self.call(producer.transactional_id, operation, object)
        assert isinstance(reply, Ended)
        return reply

    async def look_up(
        self, producer: "ProducerIdentity", partitions: "Partitions"
    ) -> Mapping[tuple[str, int], ErrorCode]:
        """Verify that the producer may write in its transaction; the error code for each (topic, partition).

        Raises CoordinatorUnavailable.
        """
        return await self.ask(producer.transactional_id, lambda shard, _now_ms: shard.verify(producer, partitions))

    async def verify(
        self, producer: "ProducerIdentity", partitions: "Partitions"
    ) -> Mapping[tuple[str, int], ErrorCode]:
        """Like `look_up`, with the errors of Produce: a stale epoch is INVALID_PRODUCER_EPOCH.

        The coordinator may be on another broker. Raises CoordinatorUnavailable.
        """
        leader_id = self._elsewhere(producer.transactional_id)
        if leader_id is None:
            answers = await self.look_up(producer, partitions)
        else:
            answers = await self._ask(leader_id, producer, partitions, verify_only=True)
        return {topic_partition: _to_producer(error) for topic_partition, error in answers.items()}

    def _elsewhere(self, transactional_id: str) -> int | None:
        """The broker that coordinates the id, or None if it is this one.

        Raises CoordinatorUnavailable if there is none.
        """
        leader_id = self._brokers.leader_of(self.topic, self.partition(transactional_id))
        if leader_id in (None, NO_LEADER):
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return None if leader_id == self._brokers.node_id else leader_id

    async def _ask(
        self, leader_id: int, producer: "ProducerIdentity", partitions: "Partitions", *, verify_only: bool
    ) -> Mapping[tuple[str, int], ErrorCode]:
        """Call `ask_coordinator`, which is imported at first use: a broker that is alone does not need it."""
        from odradek.gateway.coordinators.remote_transactions import ask_coordinator

        return await ask_coordinator(self._brokers, leader_id, producer, partitions, verify_only=verify_only)

    async def add_for_write(
        self, producer: "ProducerIdentity", partitions: "Partitions"
    ) -> Mapping[tuple[str, int], ErrorCode]:
        """Add partitions to the transaction because the producer writes there (KIP-890); results as those of `verify`.

        Unlike `add_partitions` it does not wait for the markers of the previous transaction: they would delete the
        guard of this verification, and the batch would be refused permanently instead of retried.
        """
        leader_id = self._elsewhere(producer.transactional_id)
        if leader_id is not None:
            answers = await self._ask(leader_id, producer, partitions, verify_only=False)
            return {topic_partition: _to_producer(error) for topic_partition, error in answers.items()}
        error = _to_producer(await self.add_at_once(producer, partitions))
        return {(topic, index): error for topic, indexes in partitions.items() for index in indexes}

    async def add_at_once(self, producer: "ProducerIdentity", partitions: "Partitions") -> ErrorCode:
        """Add partitions for another broker's request, without waiting for the markers of the previous transaction.

        CONCURRENT_TRANSACTIONS while they are being written. Raises CoordinatorUnavailable.
        """
        return await self.call(
            producer.transactional_id,
            lambda shard, token, now_ms: shard.add_partitions(
                producer, partitions, EPOCH_PER_TRANSACTION, token, now_ms
            ),
            ErrorCode,
        )

    async def _retry_after_markers(
        self, transactional_id: str, ask: Callable[[], Awaitable[R]], error_of: Callable[[R], int]
    ) -> R:
        """Repeat `ask` while it returns CONCURRENT_TRANSACTIONS, after each set of markers, up to MARKER_WAIT_MS."""
        deadline_ms = self._env.monotonic_ms() + MARKER_WAIT_MS
        while True:
            reply = await ask()
            finished = self._finishing.get(transactional_id)
            left_ms = deadline_ms - self._env.monotonic_ms()
            if error_of(reply) != ErrorCode.CONCURRENT_TRANSACTIONS or finished is None or left_ms <= 0:
                return reply
            with trio.move_on_after(left_ms / 1000):
                await finished.wait()

    # Markers

    @cached_property
    def _remote_markers(self) -> "RemoteMarkers":
        """The writer of markers to other brokers, imported at first use."""
        from odradek.gateway.coordinators.remote_transactions import RemoteMarkers

        return RemoteMarkers(self._marker_brokers, self._nursery)

    def _to_finish(self, shard: "TransactionShard") -> Callable[[], None]:
        return partial(self._begin_finishing, shard.take_unfinished())

    def _begin_finishing(self, decided: "Sequence[Transaction]") -> None:
        """Begin to write the markers of committed decisions.

        A shard that is loaded again finds a decision again. Then the earlier task ends first, since a marker that it
        wrote later could end the producer's next transaction, which may have the same producer epoch.
        """
        for transaction in decided:
            transactional_id = transaction.transactional_id
            earlier = self._tasks.get(transactional_id)
            if earlier is not None:
                earlier.cancel()
            scope = self._tasks[transactional_id] = trio.CancelScope()
            self._finishing.setdefault(transactional_id, trio.Event())
            self._nursery.start_soon(self._finish_in, scope, transaction)

    async def _finish_in(self, scope: trio.CancelScope, decided: "Transaction") -> None:
        transactional_id = decided.transactional_id
        try:
            with scope:
                await self._finish(decided)
        finally:
            if self._tasks.get(transactional_id) is scope:
                del self._tasks[transactional_id]
                self._finishing.pop(transactional_id).set()

    async def _finish(self, decided: "Transaction") -> None:
        from odradek.coordinator.transactions.state import TransactionState

        transactional_id = decided.transactional_id
        try:
            await trio.lowlevel.checkpoint()  # the reply to EndTxn, due in the same turn of the loop, is sent first
            runtime = self.runtime(self.partition(transactional_id))
            if runtime.state is not ShardState.ACTIVE or not runtime.shard.has(decided):
                return  # it is completed already; or the shard was discarded, and finds the decision when it is loaded
            committed = decided.state is TransactionState.PREPARE_COMMIT
            producer = Producer(decided.producer_id, decided.producer_epoch)
            marker = Marker(producer, committed, runtime.leader_epoch, decided.version)
            partitions = [(topic, index) for topic, each in decided.partitions.items() for index in sorted(each)]
            refusals = await self._mark_all(marker, partitions)
            if refusals:
                log.error(
                    "transaction not completed transactional_id=%s refused by=%s; a coordinator that is loaded with a "
                    "later epoch tries again",
                    transactional_id,
                    ",".join([f"{key}:{error.name}" for key, error in refusals.items()]),
                )
                return
            # `reads`: also while the log refuses writes. The append then fails, so the shard is discarded and reloaded,
            # and the decision is found again. A refusal before the operation would leave the transaction unfinished.
            await self.call(
                transactional_id,
                lambda shard, token, now_ms: shard.complete(decided, token, now_ms),
                type(None),
                reads=True,
            )
        except (CoordinatorUnavailable, PartitionUnavailable) as error:
            # The shard will be reloaded with the decision; or the broker stops.
            log.info("transaction not completed yet transactional_id=%s cause=%s", transactional_id, error)
        except Exception:  # a defect that concerns one transaction must not end the broker
            log.exception("transaction not completed because of a defect transactional_id=%s", transactional_id)

    async def _mark_all(
        self, marker: Marker, partitions: Sequence[tuple[str, int]]
    ) -> Mapping[PartitionKey, ErrorCode]:
        """Write the marker into partitions; return when it is committed in each that still exists, or refused.

        Returns the refusals. As in Kafka, a transaction with one is not completed: part of it may still be open, and
        the producer must not begin another one over it.

        A task for each partition costs more than the marker. So a task is started only for a partition that must wait
        before the marker is appended, or whose write fails; it starts at once, since the others may take long.
        """
        begun: list[Completion[None]] = []
        failed: list[tuple[str, int]] = []
        refusals: dict[PartitionKey, ErrorCode] = {}
        changed = Signal()

        def note_failure(topic_partition: tuple[str, int], write: Completion[None]) -> None:
            if write.error is not None:
                failed.append(topic_partition)
                changed.wake()

        encoded = marker.encoded(self._env.wall_ms())
        async with trio.open_nursery() as nursery:
            for number, topic_partition in enumerate(partitions, 1):
                write = self._append_here(encoded, *topic_partition, refusals)
                if write is None:
                    nursery.start_soon(self._mark, marker, *topic_partition, refusals)
                else:
                    begun.append(write)
                    write.on_settled(partial(note_failure, topic_partition))
                if not number % MARKED_AT_ONCE:
                    await trio.lowlevel.checkpoint()
            ended = Gathered(begun, changed.wake)
            while failed or not ended.settled:
                if failed:
                    nursery.start_soon(self._mark, marker, *failed.pop(), refusals)
                else:
                    await changed.wait()
        return refusals

    def _append_here(
        self, marker: EncodedMarker, topic: str, index: int, refusals: dict[PartitionKey, ErrorCode]
    ) -> Completion[None] | None:
        """Queue the marker in an open local log, except of the offsets topic; None if that is not possible."""
        replica = self._replicas.get(topic, index)
        if replica is None or replica.state is not ReplicaState.OPEN or topic == CONSUMER_OFFSETS:
            return None
        try:
            error, write = append_marker(replica, marker)
        except PartitionUnavailable:
            return None
        if error:
            refusals[replica.key] = error
        return write

    async def _mark(self, marker: Marker, topic: str, index: int, refusals: dict[PartitionKey, ErrorCode]) -> None:
        """Write the marker into one partition; return when it is committed or refused, or the partition deleted."""
        while (described := self._metadata.image.topic(topic)) is not None and index < len(described.partitions):
            key = PartitionKey(topic, described.topic_id, index)
            leader_id = described.partitions[index].leader
            try:
                error = await self._write(leader_id, marker, topic, index)
            except (CoordinatorUnavailable, PartitionUnavailable, PeerCallError, StoreError) as cause:
                self._failed_markers.failed(key, "marker not written, tried again", cause)
                await trio.sleep(MARKER_RETRY_MS / 1000)
                continue
            self._failed_markers.succeeded(key, "markers are written")
            if error:
                refusals[key] = error
            return

    async def _write(self, leader_id: int, marker: Marker, topic: str, index: int) -> ErrorCode:
        """Write a marker at the partition's leader. Raises an error if it must be retried."""
        if leader_id == self._brokers.node_id:
            return await self._write_here(self._replicas.find(topic, index), marker)
        if leader_id == NO_LEADER:
            raise PartitionUnavailable(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{index}")
        error = await self._remote_markers.write(leader_id, marker, (topic, index))
        if error and error not in MARKER_REFUSED:
            raise PartitionUnavailable(error, f"{topic}-{index}")
        return error

    async def _write_here(self, replica: Replica, marker: Marker) -> ErrorCode:
        """Write a marker into one partition; committed on return, or refused with an error code.

        Raises CoordinatorUnavailable, PartitionUnavailable, StoreError.
        """
        begun = await self.begin_marker(replica, marker)
        await begun.committed.wait()
        return begun.error

    def takes_markers(self, replica: Replica) -> bool:
        """True if `begin_marker` does not wait."""
        if replica.key.topic == CONSUMER_OFFSETS:
            return self._groups.is_loaded(replica.key.index)
        return replica.state is ReplicaState.OPEN

    async def begin_marker(self, replica: Replica, marker: Marker, deadline_ms: float = math.inf) -> BegunMarker:
        """Append a marker to one partition; in the offsets topic, also commit or drop the offsets (KAFKA-17507).

        It waits only until the log is open, or the shard of the offsets loaded; after `deadline_ms` on the monotonic
        clock nothing is appended (REQUEST_TIMED_OUT). Raises CoordinatorUnavailable, PartitionUnavailable, StoreError.
        """
        is_for_offsets = replica.key.topic == CONSUMER_OFFSETS
        if is_for_offsets:
            await self._groups.ensure_loaded(replica.key.index)
        elif replica.state is ReplicaState.CLOSED:
            async with self._opening:
                await replica.ensure_open()
        else:
            await replica.ensure_open()
        if self._env.monotonic_ms() > deadline_ms:
            raise PartitionUnavailable(ErrorCode.REQUEST_TIMED_OUT, replica.key)
        if is_for_offsets:
            return self._groups.end_transaction(replica.key.index, marker)
        return append_marker(replica, marker.encoded(self._env.wall_ms()))


def _transaction_shard(config: TransactionConfig, metadata: MetadataPublisher) -> "TransactionShard":
    """A new shard.

    Imports the transactions' decision code here, so that a broker without transactions starts faster.
    """
    from odradek.coordinator.transactions.shard import TransactionShard

    return TransactionShard(config, lambda: metadata.features.finalized.get(FEATURE, PLAIN))


def _itself(error: ErrorCode) -> int:
    return error


def _to_producer(error: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error
