"""Drives the quorum's state machine: handles one event after the other, and carries out its effects before the next.

See the package's docstring.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

import trio

from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.snapshots import Download, divergence_of, is_behind
from odradek.coordinator.quorum.values import (
    NO_NODE,
    UNKNOWN_OFFSET,
    BeginEpoch,
    ElectionState,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    Role,
    Send,
    SnapshotId,
    State,
    Timing,
    Vote,
)
from odradek.coordinator.quorum.voters import NOT_IN_LOG, Voter, VoterSet
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.signals import Signal, Watchable
from odradek.gateway.errors import MetadataLostError, PartitionUnavailable, RequestRefusedError, StartError
from odradek.gateway.peers import PeerCallError, PeerLimits, Peers
from odradek.gateway.quorum.endpoints import ControllerEndpoints
from odradek.gateway.quorum.metadata_log import MetadataReplica
from odradek.gateway.quorum.stored import ELECTION_STATE, FOUNDING, IN_LOG, OF_SETTINGS, RETRY_S, StoredState
from odradek.storage_backends.interface import ReadLease, Store, StoreError
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.schema.schema import Message
from odradek.wire.values import immutable

if TYPE_CHECKING:
    from odradek.gateway.quorum.messages import QuorumMessages, Taken

log = logging.getLogger(__name__)

T = TypeVar("T")

FETCH_WAIT_MS: Final = 500
"""How long a leader holds a Fetch for which it has no new records, as in Kafka."""
SETTLED: Final = (State.LEADER, State.FOLLOWER, State.RESIGNED)
"""The states that are logged at level INFO; the steps of an election between them at DEBUG."""
UPDATE_VERSION: Final = 0
"""The version of UpdateRaftVoter."""
STOP_WAIT_MS: Final = 1000
"""How long a stopping leader waits for the responses to EndQuorumEpoch."""


@immutable
class QuorumSettings:
    """`voters` are the voters' ids and endpoints for each other, including this node's if it is a voter.

    If the settings do not contain ids, the keys are negative, and the endpoints of other nodes come from the leader's
    responses and the log. `listener` is the controllers' listener. `founds`: this node is the first voter of a quorum
    whose log contains its voters (KIP-853); `joins`: it becomes a voter automatically (KIP-1186).
    """

    node_id: int
    voters: Mapping[int, tuple[str, int]]
    timing: Timing
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    listener: str = ""
    founds: bool = False
    joins: bool = False

    @property
    def is_alone(self) -> bool:
        """True if this node is the only voter."""
        return list(self.voters) == [self.node_id]


class Fetched(NamedTuple):
    """The response to a Fetch, and a lease on the records if there are any; it must be given back to the replica."""

    answer: FetchAnswer
    lease: ReadLease | None = None


class QuorumDriver:
    """This node's part in the quorum.

    `changes` is notified when the leader, the epoch or the high watermark may have changed. `logged_cluster_id` returns
    the cluster's id in the published image, empty while it has none. `endpoints` are this node's listeners for other
    controllers.
    """

    def __init__(
        self,
        settings: QuorumSettings,
        store: Store,
        env: Environment,
        replica: MetadataReplica,
        nursery: trio.Nursery,
        logged_cluster_id: Callable[[], str],
        endpoints: Mapping[str, tuple[str, int]],
    ) -> None:
        self.settings = settings
        self.replica = replica
        self.changes = Watchable()
        self.endpoints = endpoints
        self._logged_cluster_id = logged_cluster_id
        self.known_endpoints = ControllerEndpoints(settings.node_id, settings.voters, settings.listener, replica)
        self._stored = StoredState(store, env, replica.repeats)
        self._env = env
        self._nursery = nursery
        self._core: Quorum | None = None
        self._events: deque[Callable[[int], None]] = deque()
        self._replies: list[Callable[[], None]] = []
        self._work = Signal()
        self._is_reopening = False
        client_id = f"raft-client-{settings.node_id}"
        limits = PeerLimits(backoff_ms=settings.timing.retry_ms, backoff_max_ms=settings.timing.election_ms)
        self._elections = Peers(env, nursery, client_id, limits)
        self._fetches = Peers(env, nursery, client_id, limits)

    # Used by other modules

    @cached_property
    def messages(self) -> "QuorumMessages":
        """The messages of this quorum, imported at first use, so that a broker that is alone starts faster."""
        from odradek.gateway.quorum.messages import QuorumMessages

        settings = self.settings
        return QuorumMessages(
            self.replica.key,
            settings.fetch_max_bytes,
            settings.fetch_snapshot_max_bytes,
            FETCH_WAIT_MS,
            self.endpoints,
        )

    @property
    def core(self) -> Quorum:
        """The state machine. Other tasks may read it; calls that change it go through `ask`."""
        assert self._core is not None, "the quorum was not opened"
        return self._core

    def cluster_id(self) -> str:
        """The stored id of the cluster, or else that of the published image; empty while neither is known.

        Nodes send it in each request, and refuse requests of another cluster: an address may now belong to another
        cluster.
        """
        return self._stored.cluster_id or self._logged_cluster_id()

    @property
    def leader_id(self) -> int:
        """The leader, or NO_NODE while none is known."""
        return NO_NODE if self._core is None else self._core.leader_id

    def endpoint_of(self, node_id: int) -> tuple[str, int] | None:
        """A voter's endpoint for controllers, or None if it is not known."""
        return self.known_endpoints.of(node_id, -1 if self._core is None else self._core.epoch)

    @property
    def directory_id(self) -> UUID:
        """The id of this node's directory."""
        return self.core.me.directory_id

    @property
    def active_epoch(self) -> int | None:
        """The epoch in which this node may decide: it leads, and all earlier records are committed. None otherwise."""
        core = self._core
        if core is None or core.leadership is None or not core.leadership.has_committed(core.high_watermark):
            return None
        return core.epoch

    @property
    def now_ms(self) -> int:
        """The time on the quorum's clock."""
        return self._env.monotonic_ms()

    # Start and stop

    async def open(self) -> None:
        """Open the log and restore the election state. The sole voter leads from then on.

        Raises PartitionUnavailable when the log cannot be opened, StoreError, MetadataLostError when snapshots or
        voters are missing, and StartError when properties are damaged or contradict the settings.
        """
        if self._core is not None:
            return
        election = await self._stored.load()
        await self._open_log()
        await self._open_voters()
        self._core = self._machine(election)
        self.replica.on_durable, self.replica.on_failed = self._on_durable, self._on_failed
        if self.settings.is_alone:
            await self._carry_out()

    async def _open_log(self) -> None:
        replica = self.replica
        await replica.snapshots.open(self._stored.properties)
        await replica.ensure_open()
        newest = replica.newest_snapshot
        if newest is not None and is_behind(replica, newest):
            await replica.restart_after(newest)
        if not await replica.find_base():
            raise MetadataLostError(
                f"the metadata log begins at {replica.log.log_start_offset}, and the snapshot of what was before is "
                f"missing in the store (directories {replica.key}.…)"
            )
        await replica.estimate()

    async def _open_voters(self) -> None:
        """Load the voters that the log contains; a cluster of one only checks the stored `kraft.version`."""
        replica = self.replica
        if self.settings.is_alone:
            if self._stored.version != OF_SETTINGS:
                raise StartError(
                    "the metadata log of this store names the voters of its quorum: set "
                    "controller.quorum.bootstrap.servers, and no controller.quorum.voters"
                )
            return
        try:
            await replica.load_voters()
        except (InvalidRecordBatch, ProtocolError) as error:
            raise StartError(f"the voters in the metadata log cannot be read: {error}") from error
        if self.settings.founds and replica.voters is None:
            self._check_founds()
            replica.found(VoterSet.of([self.own_voter()]))

    def _check_founds(self) -> None:
        """Check that this node has not been a voter before; if it has founded its quorum, that the log lacks nothing.

        Otherwise its log could be lost, and other nodes could have the voters that were in it.
        """
        stored = self._stored
        if stored.version == IN_LOG:
            raise MetadataLostError("the metadata log lacks the voters of its quorum, which it had")
        if stored.properties.get(ELECTION_STATE) and stored.version != FOUNDING:
            raise StartError(
                "controller.quorum.bootstrap.servers names this controller alone, which was one of several: raise "
                "kraft.version while controller.quorum.voters names them"
            )

    def own_voter(self) -> Voter:
        """This node as a voter."""
        return Voter(ReplicaKey(self.settings.node_id, self._stored.directory_id), self.endpoints)

    def _machine(self, election: ElectionState) -> Quorum:
        me = ReplicaKey(self.settings.node_id, self._stored.directory_id)
        chances = iter(self._env.random.random, -1.0)
        return Quorum(
            me, list(self.settings.voters), self.replica, self.settings.timing, chances, election, self.now_ms
        )

    async def run(self) -> None:
        """Handle events until cancelled."""
        await self._carry_out()
        if self.settings.joins:
            from odradek.gateway.quorum.auto_join import join_automatically

            self._nursery.start_soon(join_automatically, self, self.settings.timing)
        while True:
            if self._events:
                self._events.popleft()(self.now_ms)
            else:
                deadline_ms = self.core.deadline_ms(self.now_ms)
                wait_ms = float("inf") if deadline_ms is None else max(deadline_ms - self.now_ms, 0)
                if await self._work.wait(wait_ms):
                    continue
                self.core.on_time(self.now_ms)
            await self._carry_out()

    async def stop(self) -> None:
        """Announce that this node stops; a leader waits a limited time for the responses. `run` must be running."""
        if self.settings.is_alone or self._core is None:
            return
        with trio.move_on_after(STOP_WAIT_MS / 1000):
            await self._ask(self.core.stop)
            signal = Signal()
            self.changes.watch(signal)
            try:
                while not self.core.has_left:
                    await signal.wait()
            finally:
                self.changes.unwatch(signal)

    # Events

    async def ask(self, event: Callable[[int], T]) -> T:
        """Run `event(now_ms)` in its turn, and return its result when all its effects have been carried out.

        Cancellation does not prevent the event, and neither does RequestRefusedError, which is raised when effects take
        longer than the requests of other nodes wait, since the disk does not work.
        """
        with trio.move_on_after(self.settings.timing.request_ms / 1000):
            return await self._ask(event)
        raise RequestRefusedError("the quorum's state cannot be stored now (controller.quorum.request.timeout.ms)")

    async def _ask(self, event: Callable[[int], T]) -> T:
        reply: Completion[T] = Completion()

        def happen(now_ms: int) -> None:
            result = event(now_ms)
            self._replies.append(partial(reply.settle, result))

        self._post(happen)
        return await reply.wait()

    def _post(self, event: Callable[[int], None]) -> None:
        self._events.append(event)
        self._work.wake()

    def _on_durable(self) -> None:
        """Note that more of the log is durable.

        Not an event, since it changes nothing that must be stored first. The empty event makes `run` send what is due.
        """
        self.core.durable(self.now_ms)
        self._progress()
        if not self.settings.is_alone:
            self._post(_nothing)

    def _on_failed(self) -> None:
        if self.settings.is_alone:
            return  # the next call that needs the log opens it again
        self._post(self.core.hand_over)
        if not self._is_reopening:
            self._is_reopening = True
            self._nursery.start_soon(self._reopen_log)

    async def _reopen_log(self) -> None:
        """Reopen the failed log, and retry until that succeeds."""
        try:
            while True:
                try:
                    await self.replica.ensure_open()
                except PartitionUnavailable as error:
                    if not error.is_offline:
                        return  # the node stops
                    await trio.sleep(RETRY_S)
                else:
                    return
        finally:
            self._is_reopening = False

    # Effects

    async def _carry_out(self) -> None:
        ready = self.core.ready()
        voters, durable = self.replica.voters, self.replica.durable_end_offset
        if ready.election is not None or self._stored.is_outdated(voters, durable):
            await self._stored.save(self.core.election, voters, durable)
        if ready.cut_at is not None:
            await self._cut(ready.cut_at)
        if ready.restart_at is not None:
            await self._restart_log(ready.restart_at)
        if ready.role is not None:
            self._take_role(ready.role)
        for send in ready.sends:
            self._nursery.start_soon(self._exchange, send)
        self._progress()
        replies, self._replies = self._replies, []
        for reply in replies:
            reply()

    async def _cut(self, offset: int) -> None:
        await self._rewritten(partial(self.replica.cut, offset))

    async def _restart_log(self, snapshot: SnapshotId) -> None:
        """Store the snapshot durably and list it in the property; then restart the log behind it."""
        while True:
            try:
                await self.replica.snapshots.keep_staged(snapshot)
            except StoreError as error:
                message = "cannot keep a snapshot of the metadata log cause=%s"
                self.replica.repeats.note(message, log, logging.ERROR, message, error)
                await trio.sleep(RETRY_S)
            else:
                break
        await self._rewritten(partial(self.replica.restart_after, snapshot))

    async def _rewritten(self, rewrite: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await rewrite()
            except PartitionUnavailable as error:
                if not error.is_offline:
                    return  # the node stops
            except StoreError as error:
                message = "cannot read a snapshot of the metadata log cause=%s"
                self.replica.repeats.note(message, log, logging.ERROR, message, error)
            else:
                break
            await trio.sleep(RETRY_S)
        self.core.durable(self.now_ms)
        self._post(_nothing)

    def _take_role(self, role: Role) -> None:
        is_settled = not self.settings.is_alone and role.state in SETTLED
        level = logging.INFO if is_settled else logging.DEBUG
        log.log(level, "quorum state=%s epoch=%d leader_id=%d", role.state.value, role.epoch, role.leader_id)
        if role.state is not State.LEADER:
            self.replica.follow(role.epoch, role.leader_id)
            if role.state is State.FOLLOWER and self._has_moved():
                self._nursery.start_soon(self._update_endpoint, role)
            return
        self.replica.lead(role.epoch, self.core.voters, role.granting)
        if not self.settings.is_alone:
            try:
                self.replica.announce()
                self._append_own_voter()
            except PartitionUnavailable:
                self._on_failed()

    def _has_moved(self) -> bool:
        """True if the log has another endpoint (or other data) for this voter than its current one."""
        logged, own = self.replica.voters, self.own_voter()
        return logged is not None and own.key in logged.voters and logged.voters.get(own.key.id) != own

    async def _update_endpoint(self, role: Role) -> None:
        """Send UpdateRaftVoter to the leader of this epoch until the log has this voter's current endpoint."""
        while self.core.epoch == role.epoch and self.core.state is State.FOLLOWER and self._has_moved():
            endpoint = self.endpoint_of(role.leader_id)
            message = self.messages.update(self.own_voter(), role.epoch, self.cluster_id())
            try:
                if endpoint is not None:
                    await self.call(role.leader_id, endpoint, message, UPDATE_VERSION)
            except PeerCallError as error:
                log.debug("the leader does not take where this voter listens cause=%s", error)
            await trio.sleep(self.settings.timing.fetch_ms / 1000)

    def _append_own_voter(self) -> None:
        """Append the quorum's first VotersRecord, or a new one if this voter's endpoint has changed."""
        logged = self.replica.voters
        if logged is not None and (logged.offset == NOT_IN_LOG or self._has_moved()):
            self.replica.append_voters(logged.voters.having(self.own_voter()))
            self.core.durable(self.now_ms)  # a voter set is in force as soon as it is appended

    def _progress(self) -> None:
        self.replica.commit_to(self.core.high_watermark)
        self.changes.notify()

    # Other nodes

    async def call(self, node: int, endpoint: tuple[str, int], message: Message, version: int) -> Message:
        """Send a request to another controller. Raises PeerCallError."""
        return await self._elections.at(node, endpoint).call(message, version, self.settings.timing.request_ms)

    async def _exchange(self, send: Send) -> None:
        is_fetch = isinstance(send.request, Fetch | FetchSnapshot)
        peers = self._fetches if is_fetch else self._elections
        asked = send.request.voter if isinstance(send.request, Vote | BeginEpoch) else None
        to = asked or ReplicaKey(send.to)
        message, version = self.messages.request(send.request, to, self.cluster_id())
        timing = self.settings.timing
        timeout_ms = timing.request_ms + (FETCH_WAIT_MS if is_fetch else 0)
        taken: Taken | None = None
        endpoint = self.endpoint_of(send.to)
        if endpoint is None:
            self._post(partial(self._take, send, None))
            return
        try:
            peer = peers.at(send.to, endpoint)
            response = await peer.call(message, version, timeout_ms)
            taken = self.messages.taken(response)
            if taken is None:
                self.known_endpoints.note_refused(endpoint, response, self.cluster_id())
        except PeerCallError as error:
            log.debug("no answer in the quorum cause=%s", error)
        self._post(partial(self._take, send, taken))

    def _take(self, send: Send, taken: "Taken | None", now_ms: int) -> None:
        if taken is None:
            self.core.failed(send.to, send.number, now_ms)
            return
        self.known_endpoints.learn(taken.answer, taken.endpoints)
        if not self.core.answered(send.to, send.number, taken.answer, now_ms):
            return
        if isinstance(taken.answer, FetchSnapshotAnswer):
            assert taken.records is not None
            assert self.core.download is not None
            self._nursery.start_soon(self._store_part, self.core.download, taken.answer, bytes(taken.records))
        else:
            try:
                if taken.records is not None and len(taken.records):
                    self.replica.take(taken.records)
            except PartitionUnavailable as error:
                log.debug("the metadata log takes no records cause=%s", error)
                self.core.not_stored(None, now_ms)
            except (InvalidRecordBatch, ProtocolError) as error:
                message = "the leader of the metadata sent what cannot be appended cause=%s"
                self.replica.repeats.note(message, log, logging.ERROR, message, error)
                self.core.not_stored(None, now_ms)
            self.core.durable(now_ms)

    async def _store_part(self, download: Download, answer: FetchSnapshotAnswer, data: bytes) -> None:
        position = answer.position
        try:
            is_whole = await self.replica.snapshots.stage(download.snapshot, position, data, answer.size)
        except (StoreError, InvalidRecordBatch, ProtocolError) as error:
            message = "cannot store a snapshot of the metadata log cause=%s"
            self.replica.repeats.note(message, log, logging.WARNING, message, error)
            self._post(partial(self.core.not_stored, download))
        else:
            self._post(partial(self.core.stored, download, position + len(data), is_whole=is_whole))

    async def fetch_snapshot(self, request: FetchSnapshot, max_bytes: int) -> tuple[FetchSnapshotAnswer, bytes]:
        """Answer a replica that downloads a snapshot."""
        error = await self.ask(partial(self.core.fetch_snapshot, request))
        snapshots, snapshot, position = self.replica.snapshots, request.snapshot, request.position
        kept, data = snapshots.known.get(snapshot), b""
        if not error and kept is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not error and kept is not None and not 0 <= position < kept.size_bytes:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        if error or kept is None:
            return FetchSnapshotAnswer(error, self.core.epoch, self.core.leader_id, snapshot), data
        try:
            limit = max(min(max_bytes, self.settings.fetch_snapshot_max_bytes), 0)
            data = await snapshots.part(snapshot, position, limit)
        except StoreError as failure:
            error = ErrorCode.SNAPSHOT_NOT_FOUND if snapshot not in snapshots.known else ErrorCode.KAFKA_STORAGE_ERROR
            log.warning("cannot read a snapshot of the metadata log cause=%s", failure)
        core, size_bytes = self.core, kept.size_bytes
        return FetchSnapshotAnswer(error, core.epoch, core.leader_id, snapshot, size_bytes, position, len(data)), data

    async def fetch(self, request: Fetch, max_wait_ms: int, max_bytes: int) -> Fetched:
        """Answer a replica's Fetch at once if there is something new for it; otherwise when there is, or after
        `max_wait_ms`, but at most FETCH_WAIT_MS.
        """
        answer = await self.ask(lambda now_ms: self.core.fetch(request, now_ms))
        if answer.error or answer.diverging is not None or answer.snapshot is not None:
            return Fetched(answer)
        await self._await_changes(request, min(max_wait_ms, FETCH_WAIT_MS))
        core, replica = self.core, self.replica
        lease: ReadLease | None = None
        try:
            end_offset = replica.log.durable_end_offset
            if divergence_of(replica, request.offset, request.last_epoch) is not None:
                return Fetched(answer)  # truncated meanwhile, at either end: the next Fetch detects it
            if not core.check_fetch(request.epoch) and end_offset > request.offset:
                lease = await replica.read(request.offset, end_offset, min(max_bytes, self.settings.fetch_max_bytes))
        except PartitionUnavailable:
            return Fetched(FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, core.epoch, NO_NODE))
        error = core.check_fetch(request.epoch)
        if error and lease is not None:
            replica.give_back(lease)
            lease = None
        return Fetched(FetchAnswer(error, core.epoch, core.leader_id, self._reported()), lease)

    def _reported(self) -> int:
        leadership = self.core.leadership
        return UNKNOWN_OFFSET if leadership is None else leadership.reported(self.core.high_watermark)

    async def _await_changes(self, request: Fetch, max_wait_ms: int) -> None:
        signal = Signal()
        self.changes.watch(signal)
        until_ms = self.now_ms + max_wait_ms
        try:
            while not self._has_changes(request) and (left_ms := until_ms - self.now_ms) > 0:
                await signal.wait(left_ms)
        finally:
            self.changes.unwatch(signal)

    def _has_changes(self, request: Fetch) -> bool:
        core, replica = self.core, self.replica
        return bool(
            core.check_fetch(request.epoch)
            or replica.durable_end_offset > request.offset
            or self._reported() > request.high_watermark
            or (replica.base is not None and replica.base.end_offset > request.offset)
        )


def _nothing(_now_ms: int) -> None:
    """Does nothing: as an event it makes the driver carry out the effects that the state machine has ready."""
