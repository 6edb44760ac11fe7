"""Fetch (API 1), versions 4 to 18: reads from offsets; in sessions (KIP-227), and by topic id from 13 (KIP-516).

A fetch that finds less than `min_bytes` waits. As in Kafka, bytes that a limit keeps out of the response count, up to
their partition's limit, and a reader of an older segment is answered at once. A fetch that waits watches its logs, and
reads again when one of them grows, a partition fails, or after `max_wait_ms`. The bytes go from the store's buffers to
the socket without a copy; their leases end when the reply is sent.

A follower fetches with its broker's id and epoch. It reads records that are durable here, committed or not, and is
answered as soon as there are more of them; its offset acknowledges all records below it (`replication/leading.py`). A
follower whose log has diverged gets the diverging epoch and its end offset. A consumer may read from a follower
(KIP-392), up to the high watermark known there; with `replica.selector.class`, the leader directs a consumer with a
rack to a replica in it.

Partitions that are not in the metadata come last in the response and do not end the wait early, as in Kafka. Partitions
are looked up once, so a topic that is deleted and created again while a fetch waits is not read by mistake.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.gateway.env.signals import Mark, Signal, Watchable
from odradek.gateway.handling.leader_hints import fetch_with_leaders
from odradek.gateway.handling.metadata_log import fetch_metadata_log
from odradek.gateway.handling.opening import open_all
from odradek.gateway.handling.partitions import PARTITION_FAILURES, error_of_partition, replica_or_error
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.gateway.server.context import TURN_EVERY, RequestContext
from odradek.partitions.fetching.budget import FetchBudget
from odradek.partitions.fetching.sessions import Fetch, Wanted, replica_id_of
from odradek.partitions.leader import FollowerFetch
from odradek.partitions.results import EpochEnd, FetchPlan, Isolation, Rejected
from odradek.storage_backends.interface import ReadLease, Rest
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.wire.records.batch import iter_headers

REQUEST: Final = FetchRequest

_Found = tuple[Wanted, Replica | ErrorCode]
"""A partition in the metadata; an error if this replica must not be read for the request."""
_Answer = tuple[Wanted, PartitionData]
_NO_DATA: Final = PartitionData()

READS_FROM_FOLLOWERS_SINCE: Final = 11
"""The version from which the response may direct a consumer to a follower (KIP-392)."""
NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The errors of partitions that the metadata does not have, in their order at the end of a response."""
EXPECTED: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The errors that are no failed fetch in the metrics, as in Kafka: they are answered in normal operation, too."""


async def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Respond when there is enough to read, a partition has an error, or the time-out is reached."""
    services = ctx.services
    replica_id = replica_id_of(request)
    ctx.kind = "FetchFollower" if replica_id >= 0 else "FetchConsumer"
    if ctx.session.is_controller:
        return await fetch_metadata_log(ctx, request)
    isolation = ctx.isolation(request.isolation_level)
    now_ms = services.env.monotonic_ms()
    fetch = services.fetch_sessions.open(request, ctx.api_version, services.metadata.topic_name, now_ms)
    found, missing = await _look_up(ctx, fetch)
    reading: _Reading
    if replica_id >= 0:
        reading = _FollowerReading(ctx, request, isolation, found, replica_id)
    else:
        reading = _Reading(ctx, request, isolation, found)
    answers = await reading.read_until(now_ms + max(request.max_wait_ms, 0))
    answers += missing
    response = fetch.answer(answers, now_ms)
    if not reading.failed:
        return response
    return fetch_with_leaders(response, ctx.api_version, services.metadata.image, ctx.session.listener)


async def _look_up(ctx: RequestContext, fetch: Fetch) -> tuple[list[_Found], list[_Answer]]:
    """The partitions that can be read, and the errors of those that are not in the metadata."""
    found: list[_Found] = []
    missing: dict[ErrorCode, list[_Answer]] = {error: [] for error in NOT_THERE}
    for number, wanted in enumerate(fetch.wanted, 1):
        if not number % TURN_EVERY:
            await ctx.checkpoint()
        replica = replica_or_error(ctx.services, wanted.topic, wanted.asked.partition, wanted.topic_id)
        if isinstance(replica, ErrorCode) and replica in missing:
            missing[replica].append((wanted, _missing(wanted, replica)))
        else:
            found.append((wanted, replica))
    return found, [answer for answers in missing.values() for answer in answers]


def _missing(wanted: Wanted, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=wanted.asked.partition, error_code=error, high_watermark=-1, records=())


class _Reading:
    """One fetch, which reads repeatedly until it has enough bytes.

    `failed`: a partition's result is an error. `settled`: it no longer waits (`env.deadlines.Awaited`).
    """

    def __init__(
        self, ctx: RequestContext, request: FetchRequest, isolation: Isolation, found: Sequence[_Found]
    ) -> None:
        self._ctx = ctx
        self._isolation = isolation
        self._found = found
        self._max_bytes = min(request.max_bytes, ctx.services.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, max(self._max_bytes, 0))
        self._changed = Signal()
        self._woken: set[int] = set()
        self._watched: list[tuple[Watchable, Signal]] | None = None
        self._empty: list[_Answer] | None = None
        self._leader_only = ctx.api_version < READS_FROM_FOLLOWERS_SINCE
        self._rack = request.rack_id if ctx.services.replicas.selects_by_rack else ""
        self.settled = False
        self._begin()

    def _begin(self) -> None:
        self._budget = FetchBudget(self._max_bytes)
        self.failed = False
        self._is_behind = False
        self._leased: list[tuple[Replica, ReadLease]] = []

    async def read_until(self, deadline_ms: int) -> list[_Answer]:
        """The results of all partitions; their leases are returned when the response has been sent."""
        services = self._ctx.services
        is_waiting = False
        try:
            while True:
                answers = await self._look()
                if self._is_enough or services.stopping:
                    break
                left_ms = deadline_ms - services.env.monotonic_ms()
                if left_ms <= 0:
                    break
                if not is_waiting:
                    is_waiting = True
                    services.replicas.deadlines.watch(self, left_ms, self._changed.wake)
                self._undo()
                await self._changed.wait()
                self._begin()
            for replica, lease in self._leased:
                self._ctx.on_sent.append(partial(replica.give_back, lease))
                self._count(replica, lease.size_bytes)
            return answers
        finally:
            self.settled = True
            for watched, mark in self._watched or ():
                watched.unwatch(mark)

    @property
    def _is_enough(self) -> bool:
        is_available = self._budget.available_bytes >= self._min_bytes
        return self.failed or self._is_behind or is_available or not self._found

    def _undo(self) -> None:
        """Return the leases of results that are not sent."""
        for replica, lease in self._leased:
            replica.give_back(lease)

    async def _look(self) -> list[_Answer]:
        """All results. After a look that found nothing, only partitions with changes since then are read again.

        Followers and large consumers wait on thousands of partitions, of which few change at a time.
        """
        is_first = self._watched is None
        if is_first:
            if len(self._found) > 1:
                await open_all(self._ctx, (each for _, each in self._found if not isinstance(each, ErrorCode)))
            self._watched = []
        answers, self._empty = self._empty, None
        numbers = range(len(self._found)) if answers is None else self._to_read_again(answers)
        answers = answers or [(wanted, _NO_DATA) for wanted, _ in self._found]
        self._woken.clear()
        try:
            for turn, number in enumerate(numbers, 1):
                if not turn % TURN_EVERY:
                    await self._ctx.checkpoint()
                wanted, replica = self._found[number]
                answers[number] = wanted, await self._answer(wanted.asked, replica, number if is_first else None)
        except BaseException:
            self._undo()
            raise
        if not self._budget.taken_bytes and not self.failed:
            self._empty = answers
        return answers

    def _to_read_again(self, answers: Sequence[_Answer]) -> list[int]:
        """The partitions that were woken, and those whose log differs from their results."""
        woken = self._woken
        return [
            number
            for number, ((_, replica), (_, data)) in enumerate(zip(self._found, answers, strict=True))
            if number in woken or _is_outdated(replica, data)
        ]

    async def _answer(self, asked: FetchPartition, replica: Replica | ErrorCode, first: int | None) -> PartitionData:
        """Read one partition. `first` is its number on the first read, which also starts to watch it; else None."""
        if isinstance(replica, ErrorCode):
            return self._error(asked.partition, replica)
        try:
            return await self._read(asked, replica, first)
        except PARTITION_FAILURES as failure:
            return self._failed(asked.partition, replica, _error_of_read(failure, replica, asked.fetch_offset))

    async def _read(self, asked: FetchPartition, replica: Replica, first: int | None) -> PartitionData:
        if first is not None:
            replica.traffic.fetches += 1
        if replica.state is not ReplicaState.OPEN:
            await replica.ensure_open()
        if first is not None and self._watched is not None:
            watched, mark = self._tail_of(replica), Mark(self._changed, self._woken, first)
            watched.watch(mark)
            self._watched.append((watched, mark))
        plan = self._plan(asked, replica, is_first=first is not None)
        if isinstance(plan, Rejected):
            return self._failed(asked.partition, replica, plan.error)
        if plan.diverging is not None:
            self.failed = True
            return _diverging(asked.partition, plan, plan.diverging)
        if self._rack:
            preferred = replica.preferred_replica(self._rack, asked.fetch_offset)
            if preferred is not None:
                self.failed = True
                return _elsewhere(asked.partition, plan, preferred)
        lease = None if plan.is_empty or self._is_held_back(replica) else await self._lease(replica, plan)
        return _data(asked.partition, replica, plan, lease)

    def _tail_of(self, replica: Replica) -> Watchable:
        """The object that notifies this reader of new records."""
        return replica

    def _plan(self, asked: FetchPartition, replica: Replica, *, is_first: bool) -> FetchPlan | Rejected:
        """Plan the read of a partition; `is_first` is True for the first read of the request only."""
        del is_first
        return replica.role.fetch(
            asked.fetch_offset,
            max_bytes=asked.partition_max_bytes,
            isolation=self._isolation,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
            leader_only=self._leader_only,
        )

    def _count(self, replica: Replica, size_bytes: int) -> None:
        """Count bytes that are sent."""
        replica.traffic.bytes_out += size_bytes

    def _is_held_back(self, replica: Replica) -> bool:
        """True if the reader must get no records of this partition now."""
        del replica
        return False

    def _failed(self, index: int, replica: Replica, error: ErrorCode) -> PartitionData:
        if error not in EXPECTED:
            replica.traffic.failed_fetches += 1
        return self._error(index, error)

    def _error(self, index: int, error: ErrorCode) -> PartitionData:
        self.failed = True
        return PartitionData(
            partition_index=index, error_code=error, high_watermark=-1, aborted_transactions=None, records=()
        )

    async def _lease(self, replica: Replica, plan: FetchPlan) -> ReadLease | None:
        """Read within the limits; only the response's first batch may exceed them, or a reader could get stuck."""
        if self._budget.is_spent:
            return None
        allowed_bytes = self._budget.allowance(plan.max_bytes)
        lease = await replica.read(plan.start, plan.end, allowed_bytes)
        self._is_behind = self._is_behind or lease.rest is Rest.NEWER_SEGMENT
        if not self._budget.take(lease.size_bytes, allowed_bytes, has_more=lease.rest is Rest.CUT):
            replica.give_back(lease)
            return None
        self._leased.append((replica, lease))
        return lease


class _FollowerReading(_Reading):
    """The fetch of a follower."""

    def __init__(
        self,
        ctx: RequestContext,
        request: FetchRequest,
        isolation: Isolation,
        found: Sequence[_Found],
        replica_id: int,
    ) -> None:
        super().__init__(ctx, request, isolation, found)
        self._replica_id = replica_id
        self._replica_epoch = request.replica_state.replica_epoch
        self._rack = ""

    def _tail_of(self, replica: Replica) -> Watchable:
        return replica.tail

    def _plan(self, asked: FetchPartition, replica: Replica, *, is_first: bool) -> FetchPlan | Rejected:
        """Plan a follower's read. Only the request's first read records its progress, as of when it was sent."""
        follower = FollowerFetch(self._replica_id, self._replica_epoch, asked.log_start_offset)
        plan = replica.plan_follower_fetch(
            follower,
            asked.fetch_offset,
            max_bytes=asked.partition_max_bytes,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        if not is_first or isinstance(plan, Rejected):
            return plan
        replica.record_fetch(follower, plan)
        high_watermark = replica.log.high_watermark
        return plan if plan.high_watermark == high_watermark else plan._replace(high_watermark=high_watermark)

    def _count(self, replica: Replica, size_bytes: int) -> None:
        services = self._ctx.services
        services.replicas.traffic.replicated_out_bytes += size_bytes
        if replica.is_throttled:
            services.replicas.throttles.leader.record(size_bytes, services.env.monotonic_ms())

    def _is_held_back(self, replica: Replica) -> bool:
        return replica.holds_back(self._replica_id)


def _is_outdated(replica: Replica | ErrorCode, data: PartitionData) -> bool:
    if isinstance(replica, ErrorCode):
        return False
    log = replica.open_log
    return log is None or log.high_watermark != data.high_watermark or log.log_start_offset != data.log_start_offset


def _error_of_read(failure: Exception, replica: Replica, offset: int) -> ErrorCode:
    """The error code of a failed read, during which the log start may have moved beyond the offset."""
    error, log = error_of_partition(failure), replica.open_log
    is_deleted = log is not None and offset < log.log_start_offset
    return ErrorCode.OFFSET_OUT_OF_RANGE if is_deleted and error is ErrorCode.KAFKA_STORAGE_ERROR else error


def _diverging(index: int, plan: FetchPlan, end: EpochEnd) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=plan.high_watermark,
        last_stable_offset=plan.last_stable_offset,
        log_start_offset=plan.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset),
        aborted_transactions=None,
        records=(),
    )


def _elsewhere(index: int, plan: FetchPlan, preferred: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=plan.high_watermark,
        last_stable_offset=plan.last_stable_offset,
        log_start_offset=plan.log_start_offset,
        preferred_read_replica=preferred,
        aborted_transactions=None,
        records=(),
    )


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
    """The aborted transactions in the read range; None under read_uncommitted, as in Kafka.

    Determined again after the read: compaction may have removed a marker meanwhile, and its transaction must then not
    be listed.
    """
    if plan.aborted is None:
        return None
    if not plan.aborted or lease is None:
        return ()
    touched = replica.role.aborted_in(plan.start, _end_of(lease, plan.start))
    return tuple(AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in touched)


def _end_of(lease: ReadLease, start: int) -> int:
    end = start
    for chunk in lease.chunks[-1:]:
        for header in iter_headers(chunk):
            end = header.next_offset
    return end
