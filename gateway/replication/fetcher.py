"""One task that fetches partitions from one leader, in a fetch session, and handles the responses.

    positions of all partitions that may be fetched now
        ──Fetch──► responses, each for the position that was sent
            records        appended; the next fetch, whose offsets acknowledge them, waits until all are durable.
                           An empty log that ends inside the first batch is restarted with that batch
            diverging      the log is truncated, and fetched again
            out of range   the log restarts at the leader's log start, or is truncated to its end
            other errors   the partition pauses for `replica.fetch.backoff.ms`, and is fetched again unless an image
                           has assigned it to another fetcher meanwhile
        ──no response──► all pause, and the session restarts

A response for a position at which the log no longer ends is dropped: the epoch has changed, or the log was truncated.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable, received_error
from odradek.gateway.peers.errors import PeerCallError
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.partitions.fetching.following import FollowerSession, TopicPartition
from odradek.partitions.follower import FetchPosition
from odradek.partitions.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.partitions.results import NO_LEADER_EPOCH, EpochEnd, Rejected
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchRequest, PartitionData
from odradek.wire.messages.fetch import ReplicaState as FetchingReplica
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.values import immutable

if TYPE_CHECKING:
    from odradek.wire.messages.fetch import FetchResponse
    from odradek.wire.messages.list_offsets import ListOffsetsResponse

log = logging.getLogger(__name__)

IDLE_MS: Final = 1000
"""The maximum time between two rounds of a fetcher that has nothing to fetch, unless it is woken."""

OPENED_A_ROUND: Final = 500
OPENED_AT_ONCE: Final = 4
"""The number of logs opened before a fetch, and of those opened concurrently: a broker that starts has thousands."""
LEADER_IS_ANOTHER: Final = frozenset(
    {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER}
)
"""One of the two brokers already has the new leader: nothing has failed, and the other will get the same image."""


class LeaderEndpoint(Protocol):
    """One connection to one leader, for one fetcher."""

    async def fetch(self, request: FetchRequest, timeout_ms: int) -> "FetchResponse":
        """Send a Fetch. Raises odradek.gateway.peers.PeerCallError."""
        ...

    async def list_offsets(self, request: ListOffsetsRequest, timeout_ms: int) -> "ListOffsetsResponse":
        """Send a ListOffsets. Raises odradek.gateway.peers.PeerCallError."""
        ...

    def close(self) -> None:
        """End the connection. Idempotent."""
        ...


@immutable
class FetcherSettings:
    """`num.replica.fetchers`, `replica.fetch.*` and `replica.socket.timeout.ms`."""

    fetchers: int = 1
    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    backoff_ms: int = 1000
    timeout_ms: int = 30_000


_TopicPartition = tuple[str, int]
_Asked = dict[TopicPartition, tuple[Replica, FetchPosition]]


class ReplicaFetcher:
    """Fetches `partitions` from broker `leader_id` while `run` runs.

    `lags` has each partition's lag behind the leader's high watermark, in offsets, as of the last response.
    """

    def __init__(
        self,
        node_id: int,
        leader_id: int,
        endpoint: LeaderEndpoint,
        env: Environment,
        settings: Callable[[], FetcherSettings],
        own_epoch: Callable[[], int | None],
        repeats: Repeats,
    ) -> None:
        self.partitions: dict[_TopicPartition, Replica] = {}
        self._node_id = node_id
        self._leader_id = leader_id
        self._endpoint = endpoint
        self._env = env
        self._settings = settings
        self._own_epoch = own_epoch
        self._repeats = repeats
        self.lags: dict[_TopicPartition, int] = {}
        self._session = FollowerSession()
        self._paused_until_ms: dict[_TopicPartition, int] = {}
        self._opens_more = False
        self._changed = Signal()
        self._scope = trio.CancelScope()

    def add(self, replica: Replica) -> None:
        """Fetch this partition, too, from now on."""
        self.partitions[replica.key.topic, replica.key.index] = replica
        self._paused_until_ms.pop((replica.key.topic, replica.key.index), None)
        self._changed.wake()

    def remove(self, topic_partition: _TopicPartition) -> None:
        """Stop fetching the partition; a response in flight is dropped if the log's epoch has changed."""
        self.partitions.pop(topic_partition, None)
        self.lags.pop(topic_partition, None)
        self._paused_until_ms.pop(topic_partition, None)

    def stop(self) -> None:
        """End `run`."""
        self._scope.cancel()

    async def run(self) -> None:
        """Fetch until `stop`, then close the connection."""
        try:
            with self._scope:
                while True:
                    await self._round()
        finally:
            self._endpoint.close()

    async def _round(self) -> None:
        asked = await self._positions()
        epoch = self._own_epoch()
        if not asked or epoch is None:
            await self._changed.wait(min(self._next_ms(), IDLE_MS))
            return
        settings = self._settings()
        try:
            response = await self._endpoint.fetch(self._request(asked, epoch, settings), settings.timeout_ms)
        except PeerCallError as error:
            self._repeats.note(("fetch from", self._leader_id), log, logging.INFO, "cannot fetch cause=%s", error)
            self._session.restart()
            await trio.sleep(settings.backoff_ms / 1000)
            return
        if response.error_code:
            log.debug("fetch session begins anew error=%s", received_error(response.error_code).name)
        answers = list(self._session.take(response))
        await self._take(asked, answers)

    async def _positions(self) -> _Asked:
        """The positions of all partitions that may be fetched now and whose log is open."""
        ready = self._ready()
        await self._open_some([replica for replica in ready if replica.state is not ReplicaState.OPEN])
        asked, writing = self._asked(ready)
        if writing:
            await self._until_durable(writing)
            asked, _ = self._asked(ready)
        return asked

    def _asked(self, ready: list[Replica]) -> tuple[_Asked, list[Replica]]:
        """The positions, and the replicas that have none yet, since some of their records are not durable."""
        asked: _Asked = {}
        writing: list[Replica] = []
        for replica in ready:
            role = replica.follower
            if role is None or role.leader_id != self._leader_id or self._is_held_back(replica):
                continue
            if role.may_fetch:
                asked[replica.key.topic_id, replica.key.index] = replica, role.position
            else:
                writing.append(replica)
        return asked, writing

    async def _until_durable(self, writing: list[Replica]) -> None:
        """Wait for the records appended before the leader or the role changed: the fetch would acknowledge them."""
        for replica in writing:
            try:
                await replica.durable(replica.log.log_end_offset).wait()
            except (StoreError, PartitionUnavailable):
                self._pause(replica)  # the cause is logged, and the log is reopened

    def _is_held_back(self, replica: Replica) -> bool:
        """True if the throttle delays the log, which has a lag as of the leader's last response; see `throttle.py`."""
        lag = self.lags.get((replica.key.topic, replica.key.index))
        return replica.is_held_back(in_sync=lag == 0)

    def _ready(self) -> list[Replica]:
        """The partitions that are not paused."""
        if not self._paused_until_ms:
            return list(self.partitions.values())
        now_ms = self._env.monotonic_ms()
        paused = {key: until_ms for key, until_ms in self._paused_until_ms.items() if until_ms > now_ms}
        self._paused_until_ms = paused
        return [replica for key, replica in self.partitions.items() if key not in paused]

    async def _open_some(self, closed: list[Replica]) -> None:
        """Open the first of these logs, some concurrently; the others are opened in later rounds."""
        self._opens_more = len(closed) > OPENED_A_ROUND
        left = iter(closed[:OPENED_A_ROUND])
        if len(closed) < OPENED_AT_ONCE:
            await self._open_each(left)
            return
        async with trio.open_nursery() as nursery:
            for _ in range(OPENED_AT_ONCE):
                nursery.start_soon(self._open_each, left)

    async def _open_each(self, left: Iterator[Replica]) -> None:
        for replica in left:
            try:
                await replica.ensure_open()
            except PartitionUnavailable:
                self._pause(replica)

    def _next_ms(self) -> int:
        """The time until the first pause ends, or IDLE_MS if there is none."""
        now_ms = self._env.monotonic_ms()
        return min([max(each - now_ms, 1) for each in self._paused_until_ms.values()], default=IDLE_MS)

    def _pause(self, replica: Replica) -> None:
        until_ms = self._env.monotonic_ms() + self._settings().backoff_ms
        self._paused_until_ms[replica.key.topic, replica.key.index] = until_ms

    def _request(self, asked: _Asked, epoch: int, settings: FetcherSettings) -> FetchRequest:
        part = self._session.request({key: at for key, (_, at) in asked.items()}, settings.max_bytes)
        return FetchRequest(
            replica_state=FetchingReplica(replica_id=self._node_id, replica_epoch=epoch),
            max_wait_ms=0 if self._opens_more else settings.wait_max_ms,  # the next round opens more logs
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
        )

    async def _take(self, asked: _Asked, answers: list[tuple[TopicPartition, PartitionData]]) -> None:
        """Append to all logs first, so that they write concurrently; then wait for the writes and handle the errors."""
        appended: list[tuple[Replica, FetchPosition, PartitionData, Completion[None]]] = []
        others: list[tuple[Replica, FetchPosition, PartitionData, Rejected | None]] = []
        for topic_partition, data in answers:
            if topic_partition not in asked:
                continue
            replica, position = asked[topic_partition]
            is_error = data.error_code or data.diverging_epoch.epoch >= 0
            result = None if is_error else self._append(replica, position, data)
            if isinstance(result, Completion):
                appended.append((replica, position, data, result))
            elif is_error or result is not None:
                others.append((replica, position, data, result))
        for replica, position, data, durable in appended:
            try:
                if not durable.settled:
                    await durable.wait()
                durable.result()
                replica.leader_reports(position.leader_epoch, data.high_watermark, data.log_start_offset)
            except (StoreError, PartitionUnavailable):
                self._pause(replica)  # the cause is logged, and the log is reopened
        for replica, position, data, refusal in others:
            await self._handle_error(replica, position, data, refusal)

    def _append(
        self, replica: Replica, position: FetchPosition, data: PartitionData
    ) -> Completion[None] | Rejected | None:
        try:
            result = replica.take_fetched(position, _joined(data))
        except PartitionUnavailable:
            self._pause(replica)
            return None
        role = replica.follower
        if isinstance(result, Completion) and role is not None:
            self.lags[replica.key.topic, replica.key.index] = max(0, data.high_watermark - role.state.log_end_offset)
        return result

    async def _handle_error(
        self, replica: Replica, position: FetchPosition, data: PartitionData, refusal: Rejected | None
    ) -> None:
        """Handle an answer without records, or with records that the log has refused."""
        try:
            if refusal is not None:
                await self._handle_refusal(replica, position, data, refusal)
            elif data.diverging_epoch.epoch >= 0 and not data.error_code:
                await replica.truncate(position, EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))
            elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._reset_offset(replica, position)
            else:
                self._refused(replica, received_error(data.error_code))
        except (PartitionUnavailable, PeerCallError) as error:
            self._note(replica, str(error))
            self._pause(replica)

    async def _handle_refusal(
        self, replica: Replica, position: FetchPosition, data: PartitionData, refusal: Rejected
    ) -> None:
        """Restart an empty log with records that it has refused, if it ends inside the first batch.

        A log with records is compared with the leader's offsets: if those were all deleted it restarts as an empty one.
        """
        is_elsewhere = refusal.error is ErrorCode.OFFSET_OUT_OF_RANGE
        if is_elsewhere and await replica.restart_with(position, _joined(data)):
            replica.leader_reports(position.leader_epoch, data.high_watermark, data.log_start_offset)
            return
        self._note(replica, f"{refusal.error.name} {refusal.message}")
        if is_elsewhere:
            await self._reset_offset(replica, position)
        else:
            self._pause(replica)

    def _refused(self, replica: Replica, error: ErrorCode) -> None:
        if error in LEADER_IS_ANOTHER:
            log.debug("the leader is another one partition=%s cause=%s", replica.key, error.name)
        else:
            self._note(replica, error.name)
        self._pause(replica)

    async def _reset_offset(self, replica: Replica, position: FetchPosition) -> None:
        """Handle an offset outside the leader's log: restart at its log start, or truncate to its log end."""
        start = await self._leader_offset(replica, position, EARLIEST_TIMESTAMP)
        role = replica.follower_at(position)
        if start is None or role is None:
            self._pause(replica)
            return
        anew = role.reset_offset(start)
        if anew is not None:
            await replica.restart_at(position, anew)
            return
        end = await self._leader_offset(replica, position, LATEST_TIMESTAMP)
        if end is None or end >= position.offset:
            self._pause(replica)
        else:
            await replica.truncate(position, EpochEnd(NO_LEADER_EPOCH, end))

    async def _leader_offset(self, replica: Replica, position: FetchPosition, timestamp: int) -> int | None:
        part = ListOffsetsPartition(
            partition_index=replica.key.index, current_leader_epoch=position.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id, topics=(ListOffsetsTopic(name=replica.key.topic, partitions=(part,)),)
        )
        response = await self._endpoint.list_offsets(request, self._settings().timeout_ms)
        for topic in response.topics:
            for found in topic.partitions:
                if not found.error_code and found.offset >= 0:
                    return found.offset
        return None

    def _note(self, replica: Replica, cause: str) -> None:
        message = "cannot replicate partition=%s leader=%d cause=%s"
        self._repeats.note((message, replica.key), log, logging.INFO, message, replica.key, self._leader_id, cause)


def _joined(data: PartitionData) -> memoryview:
    """The records as one buffer, as they come in a response."""
    records = data.records
    if records is None:
        return memoryview(b"")
    if isinstance(records, bytes | bytearray | memoryview):
        return memoryview(records).cast("B")
    return memoryview(b"".join(cast("Sequence[bytes]", records)))
