"""Fetch (API 1), versions 4 to 12, without sessions: the session id answered is always 0, which every client accepts.

A fetch that finds less than `min_bytes` waits, watching the logs it asked for, and looks again the moment one of them
grows, an answer turns into an error, or `max_wait_ms` is over. The bytes are lent by the stores and go to the socket as
they are; the leases end when the reply is sent.

Gaps: fetch sessions (KIP-227), topic ids (13+), follower fetches.
"""

from functools import partial
from typing import Final

from gateway.context import RequestContext
from gateway.runtime.replica import Replica, ReplicaGoneError, ReplicaOfflineError
from gateway.runtime.watch import Watcher
from partitions.fetch import FetchBudget
from partitions.results import FetchPlan, Rejected
from storage_backends.interface import ReadLease
from wire.errors import ErrorCode
from wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from wire.records.batch import iter_headers

REQUEST: Final = FetchRequest
TURN_EVERY: Final = 500
"""After so many partitions others get a turn."""


async def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Answer as soon as there is enough to read, an error to tell, or the time is up."""
    env = ctx.services.env
    deadline_ms = env.monotonic_ms() + max(request.max_wait_ms, 0)
    watcher = Watcher()
    watched: list[Replica] = []
    try:
        while True:
            attempt = _Attempt(ctx, request, watcher, watched)
            response = await attempt.run()
            left_ms = deadline_ms - env.monotonic_ms()
            if attempt.enough or left_ms <= 0 or ctx.services.stopping:
                ctx.on_sent.extend(attempt.give_back)
                return response
            attempt.undo()
            await watcher.wait(left_ms)
    finally:
        for replica in watched:
            replica.unwatch(watcher)


class _Attempt:
    """One look at everything that the request asks for."""

    def __init__(self, ctx: RequestContext, request: FetchRequest, watcher: Watcher, watched: list[Replica]) -> None:
        self._ctx = ctx
        self._request = request
        self._isolation = ctx.isolation(request.isolation_level)
        self._watcher = watcher
        self._watched = watched
        self._watching = bool(watched)
        self._budget = FetchBudget(min(request.max_bytes, ctx.services.config.fetch_max_bytes))
        self._failed = False
        self._looked_at = 0
        self.give_back: list[partial[None]] = []

    @property
    def enough(self) -> bool:
        """Whether the answer need not wait."""
        return self._failed or self._budget.taken_bytes >= self._request.min_bytes or not self._request.topics

    def undo(self) -> None:
        """Give back what was borrowed for an answer that is not sent."""
        for give_back in self.give_back:
            give_back()

    async def run(self) -> FetchResponse:
        try:
            return FetchResponse(responses=tuple([await self._topic(topic) for topic in self._request.topics]))
        except BaseException:
            self.undo()
            raise

    async def _topic(self, topic: FetchTopic) -> FetchableTopicResponse:
        parts = tuple([await self._partition(topic.topic, part) for part in topic.partitions])
        return FetchableTopicResponse(topic=topic.topic, partitions=parts)

    async def _partition(self, topic: str, part: FetchPartition) -> PartitionData:
        self._looked_at += 1
        if not self._looked_at % TURN_EVERY:
            await self._ctx.let_others_go_on()
        replica = self._ctx.services.replicas.get(topic, part.partition)
        if replica is None:
            return self._error(part.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        try:
            await replica.ensure_open()
            if not self._watching:
                replica.watch(self._watcher)
                self._watched.append(replica)
            return await self._read(replica, part)
        except ReplicaOfflineError:
            return self._error(part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        except ReplicaGoneError:
            return self._error(part.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _error(self, index: int, error: ErrorCode) -> PartitionData:
        self._failed = True
        return PartitionData(
            partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=()
        )

    async def _read(self, replica: Replica, part: FetchPartition) -> PartitionData:
        plan = replica.log.fetch(
            part.fetch_offset,
            max_bytes=part.partition_max_bytes,
            isolation=self._isolation,
            current_leader_epoch=part.current_leader_epoch,
        )
        if isinstance(plan, Rejected):
            return self._error(part.partition, plan.error)
        lease = None if plan.is_empty else await self._lease(replica, plan)
        return _data(part.partition, replica, plan, lease)

    async def _lease(self, replica: Replica, plan: FetchPlan) -> ReadLease | None:
        """Borrow within the bounds; only the answer's first batch may exceed them, or a reader could never go on."""
        if self._budget.is_spent:
            return None
        allowed_bytes = self._budget.allowance(plan.max_bytes)
        lease = await replica.read(plan.start, plan.end, allowed_bytes)
        if not self._budget.take(lease.size_bytes, allowed_bytes):
            replica.give_back(lease)
            return None
        self.give_back.append(partial(replica.give_back, lease))
        return lease


def _data(index: int, replica: Replica, plan: FetchPlan, lease: ReadLease | None) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=plan.high_watermark,
        last_stable_offset=plan.last_stable_offset,
        log_start_offset=plan.log_start_offset,
        aborted_transactions=_aborted(replica, plan, lease),
        records=() if lease is None else lease.chunks,
    )


def _aborted(replica: Replica, plan: FetchPlan, lease: ReadLease | None) -> tuple[AbortedTransaction, ...] | None:
    """The aborted transactions in what was read; None under read_uncommitted, as Kafka answers.

    Asked anew after the read: compaction may have taken a marker meanwhile, and what it ended must not be told then.
    """
    if plan.aborted is None:
        return None
    if not plan.aborted or lease is None:
        return ()
    touched = replica.log.aborted_in(plan.start, _end_of(lease, plan.start))
    return tuple(AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in touched)


def _end_of(lease: ReadLease, start: int) -> int:
    end = start
    for chunk in lease.chunks[-1:]:
        for header in iter_headers(chunk):
            end = header.next_offset
    return end
