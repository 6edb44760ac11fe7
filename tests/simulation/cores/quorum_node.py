"""One machine of the quorum's simulation: the production state machine, its log and its disk.

A node carries out a `Ready` in its order, and handles no event meanwhile. Syncs of the log, writes of the election
state and of snapshots take time. A crash loses what was not synced, or by chance a part of it. When a sync fails, the
log refuses records until it has been opened again, and then has what is on the disk.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from event_queue import Timer
from quorum_disks import Content, Disk, Entry, Log
from quorum_faults import SECOND

if TYPE_CHECKING:
    from quorum_world import World

from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.snapshots import is_behind
from odradek.coordinator.quorum.values import (
    Answer,
    BeginEpoch,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    Ready,
    ReplicaKey,
    Request,
    Send,
    SnapshotId,
    State,
    Vote,
    VoteAnswer,
)
from odradek.wire.errors import ErrorCode

LONG_POLL_US: Final = SECOND // 2
FETCHED_AT_ONCE: Final = 5
DOWNLOADED_AT_ONCE: Final = 7
PARTS_OF_A_DOWNLOAD: Final = 150
"""A snapshot of more records than this many parts of seven is sent in about that many parts, in runs of any length."""
Reply = Callable[[], None]


@dataclass
class Parked:
    """A fetch that waits at the leader for new records."""

    source: int
    number: int
    incarnation: int
    request: Fetch
    until_us: int


class Node:
    """One machine: its disk, and the process that runs on it."""

    def __init__(self, world: "World", node_id: int, *, is_voter: bool) -> None:
        self.world = world
        self.id = node_id
        self.is_voter = is_voter
        self.disk = Disk()
        self.incarnation = 0
        self.alive = False
        self.rate = world.chance.uniform(0.9, 1.1)
        self.ahead_us = world.chance.randrange(10 * SECOND)
        self.paused_until_us = 0
        self.slow_us = 0

    def start(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.busy = self.draining = False
        self.inbox: deque[Callable[[], Reply | None]] = deque()
        self.parked: list[Parked] = []
        self.newly_parked: list[Parked] = []
        self.served: tuple[object, ...] = ()
        self.waiting: list[tuple[int, Entry]] = []
        self.seen_high_watermark = 0
        self.leads_since_us = 0
        self.timer = Timer(self.world, self, self._on_time)
        self.taking = False
        self.stored_at_us = 0
        self.staged: list[Entry] = []
        self.staged_of: SnapshotId | None = None
        self.disk.records = self.disk.recovered()
        self.log = Log(self.disk)
        if self.log.newest_snapshot is not None and is_behind(self.log, self.log.newest_snapshot):
            self.log.restart(self.log.newest_snapshot)
        named, timing, chances = self.named_voters(), self.world.timing, self._chances()
        self.core = Quorum(self.key, named, self.log, timing, chances, self.disk.election, self.now_ms)
        self.run(lambda: None)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, UUID(int=self.id))

    def named_voters(self) -> Collection[int]:
        return self.world.voters

    def _chances(self) -> Iterator[float]:
        while True:
            yield self.world.chance.random()

    @property
    def now_ms(self) -> int:
        return int(self.world.now_us * self.rate + self.ahead_us) // 1000

    # Events, one after the other

    def run(self, event: Callable[[], Reply | None]) -> None:
        """Runs `event` after all earlier ones; it may return a reply, which is sent after its effects."""
        self.inbox.append(event)
        if not self.draining:  # the end of an event calls this as well: the loop below continues
            self._drain()

    def _drain(self) -> None:
        self.draining = True
        self._take_events()
        self.draining = False

    def _take_events(self) -> None:
        world, inbox = self.world, self.inbox
        while inbox and self.alive and not self.busy:
            if world.now_us < self.paused_until_us:
                self.after(self.paused_until_us - world.now_us, self._go_on)
                return
            reply = inbox.popleft()()
            world.oracle.stepped(self, world.nodes)
            self.busy = True
            self._carry_out(self.core.ready(), reply)

    def _go_on(self) -> None:
        if self.inbox and not self.draining:
            self._drain()

    def _carry_out(self, ready: Ready, reply: Reply | None) -> None:
        if ready.election is not None:
            self._crash_early()
            self._persist(ready.election, lambda: self._cut(ready, reply))
        else:
            self._cut(ready, reply)

    def _crash_early(self, probability: float = 0.2) -> None:
        """By chance the process crashes around the moment at which its vote, or a snapshot, becomes durable."""
        world = self.world
        if world.breaking and "early_crash" in world.faults.kinds and world.chance.random() < probability:
            world.tally["early_crash"] += 1
            self.after(
                world.chance.randint(0, self.sync_us() * 2),
                lambda: world.end(self, world.chance.randint(1_000, SECOND)),
            )

    def sync_us(self) -> int:
        return self.world.sync_us() + self.slow_us

    def _persist(self, election: ElectionState, then: Callable[[], None]) -> None:
        def done() -> None:
            self.disk.election = election
            then()

        self.after(self.sync_us(), done)

    def _cut(self, ready: Ready, reply: Reply | None) -> None:
        if ready.restart_at is not None:
            self._begin_anew(ready, ready.restart_at, reply)
            return
        if ready.cut_at is None:
            self._finish(ready, reply)
            return
        cut_at = ready.cut_at

        def done() -> None:
            self._open_again()
            self.log.cut(cut_at)
            self._finish(ready, reply)
            self.run(lambda: self.core.durable(self.now_ms))
            self._sync()

        self.after(self.sync_us(), done)

    def _begin_anew(self, ready: Ready, snapshot: SnapshotId, reply: Reply | None) -> None:
        """Makes the snapshot durable first, then restarts the log behind it."""

        def kept() -> None:
            if snapshot not in self.disk.snapshots:
                self.disk.snapshots[snapshot] = Content(None, self.staged[:])
                self.world.tally["downloaded"] += 1
            self.world.oracle.snapshot_taken(self, snapshot)
            self._crash_early()
            self.after(self.sync_us(), restarted)

        def restarted() -> None:
            self.log.restart(snapshot)
            self._finish(ready, reply)
            self.run(lambda: self.core.durable(self.now_ms))

        self._crash_early()
        self.after(self.sync_us(), kept)

    def _finish(self, ready: Ready, reply: Reply | None) -> None:
        self.busy = False
        if ready.role is not None:
            self.waiting.clear()
            if ready.role.state is State.LEADER:
                self.world.tally["elections"] += 1
                self.leads_since_us = self.world.now_us
                if self.log.failed:
                    self.inbox.append(self._hand_over)
                else:
                    self.append([(ready.role.epoch, 0)])
        for send in ready.sends:
            self._send(send)
        if reply is not None:
            reply()
        if self.parked or self.newly_parked:
            self._serve_parked()
        if self.waiting:
            self._acknowledge()
        if not self.taking:
            self._take_snapshot()
        self._set_timer()
        self._go_on()

    def _send(self, send: Send) -> None:
        request = send.request
        if isinstance(request, Fetch):
            self.world.oracle.fetches(self, request.offset)
        elif isinstance(request, Vote) and not request.pre_vote:
            self.world.oracle.voted(self, request.epoch, self.core.me)
        target, number, incarnation = self.world.nodes[send.to], send.number, self.incarnation
        self.world.deliver(self, target, partial(target.asked, self.id, number, incarnation, request))

    def _set_timer(self) -> None:
        now_ms = self.now_ms
        due_ms = self.core.deadline_ms(now_ms)
        if due_ms is None:
            self.timer.set(None)
        else:
            self.timer.set(self.world.now_us + max(int((due_ms - now_ms) * 1000 / self.rate), 0) + 1000)

    def _on_time(self) -> None:
        self.run(lambda: self.core.on_time(self.now_ms))

    def after(self, delay_us: int, call: Callable[[], object]) -> None:
        """Calls `call` after a delay, unless the process has ended by then."""
        self.world.after_of(self, delay_us, call)

    # Messages

    def asked(self, source: int, number: int, incarnation: int, request: Request) -> None:
        self.run(partial(self._take_request, source, number, incarnation, request))

    def _take_request(self, source: int, number: int, incarnation: int, request: Request) -> Reply | None:
        if isinstance(request, Fetch):
            return self._fetch(Parked(source, number, incarnation, request, self.world.now_us + LONG_POLL_US))
        if isinstance(request, FetchSnapshot):
            part, records = self._part_of_snapshot(request)
            return lambda: self._reply(source, number, incarnation, request, part, records)
        answer = self._answer(request)
        return lambda: self._reply(source, number, incarnation, request, answer, [])

    def _answer(self, request: Vote | BeginEpoch | EndEpoch) -> Answer:
        if isinstance(request, Vote):
            return self.core.vote(request, self.now_ms)
        if isinstance(request, BeginEpoch):
            return self.core.begin_epoch(request, self.now_ms)
        return self.core.end_epoch(request, self.now_ms)

    def _reply(
        self, to: int, number: int, incarnation: int, request: Request, answer: Answer, records: list[Entry]
    ) -> None:
        if isinstance(request, Vote) and isinstance(answer, VoteAnswer) and answer.granted and not request.pre_vote:
            self.world.oracle.voted(self, request.epoch, request.candidate)
        target = self.world.nodes[to]
        self.world.deliver(self, target, partial(target.receive_answer, incarnation, self.id, number, answer, records))

    def receive_answer(self, incarnation: int, source: int, number: int, answer: Answer, records: list[Entry]) -> None:
        if self.incarnation == incarnation:
            self.run(partial(self.take, source, number, answer, records))

    def _part_of_snapshot(self, request: FetchSnapshot) -> tuple[FetchSnapshotAnswer, list[Entry]]:
        error = self.core.fetch_snapshot(request, self.now_ms)
        content = self.disk.snapshots.get(request.snapshot)
        if not error and content is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error or content is None:
            return FetchSnapshotAnswer(error, self.core.epoch, self.core.leader_id), []
        part = content.part(request.position, max(DOWNLOADED_AT_ONCE, len(content) // PARTS_OF_A_DOWNLOAD))
        core, at, size = self.core, request.position, len(content)
        return FetchSnapshotAnswer(error, core.epoch, core.leader_id, request.snapshot, size, at, len(part)), part

    def take(self, source: int, number: int, answer: Answer, records: list[Entry]) -> None:
        if isinstance(answer, FetchSnapshotAnswer):
            if self.core.answered(source, number, answer, self.now_ms):
                self._store(answer, records)
        elif self.core.answered(source, number, answer, self.now_ms):
            if records and self.log.failed:
                self.core.not_stored(None, self.now_ms)
            else:
                self.append(records)
            self.core.durable(self.now_ms)

    def _store(self, answer: FetchSnapshotAnswer, records: list[Entry]) -> None:
        """Stores parts one after the other, including those of a download that was dropped meanwhile."""
        download, snapshot, end = self.core.download, answer.snapshot, answer.position + len(records)
        assert download is not None

        def done() -> None:
            if answer.position == 0:
                self.staged_of, self.staged = snapshot, []
            if (self.staged_of, len(self.staged)) != (snapshot, answer.position):  # of a dropped download
                self.run(lambda: self.core.not_stored(download, self.now_ms))
                return
            self.staged += records
            self.run(lambda: self.core.stored(download, end, self.now_ms, is_whole=end == answer.size))

        self.stored_at_us = max(self.stored_at_us, self.world.now_us) + self.sync_us()
        self.after(self.stored_at_us - self.world.now_us, done)

    def _fetch(self, parked: Parked) -> Reply | None:
        answer = self.core.fetch(parked.request, self.now_ms)
        if answer.error or answer.diverging is not None or answer.snapshot is not None:
            request = parked.request
            return lambda: self._reply(parked.source, parked.number, parked.incarnation, request, answer, [])
        self.newly_parked.append(parked)
        self.after(LONG_POLL_US, self._serve_parked)
        return None

    def _serve_parked(self) -> None:
        """Answers the fetches that need not wait any longer.

        While the state is unchanged, only new fetches are checked.
        """
        core = self.core
        served = core.epoch, core.state, core.high_watermark, self.log.readable_end_offset, self.disk.start
        if served == self.served and not (self.parked and self.world.now_us >= self.parked[0].until_us):
            waiting, self.newly_parked = self.newly_parked, []
        else:
            waiting, self.parked, self.newly_parked = self.parked + self.newly_parked, [], []
        self.served = served
        for parked in waiting:
            if not self._serve(parked):
                self.parked.append(parked)

    def _serve(self, parked: Parked) -> bool:
        """Answers a fetch if there is something new or it has waited long enough."""
        core, request, readable = self.core, parked.request, self.log.readable_end_offset
        records = self.log.entries[request.offset : min(readable, request.offset + FETCHED_AT_ONCE)]
        error = core.check_fetch(request.epoch)
        is_trimmed = request.offset < self.disk.start
        is_news = records or is_trimmed or error or core.high_watermark > request.high_watermark
        if not is_news and self.world.now_us < parked.until_us:
            return False
        answer = FetchAnswer(error, core.epoch, core.leader_id, core.high_watermark)
        records = [] if error or is_trimmed else records
        self._reply(parked.source, parked.number, parked.incarnation, request, answer, records)
        return True

    # The log

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.log.entries.append(entry)
            self.world.oracle.wrote(self, len(self.log.entries) - 1)
        self._sync()

    def _sync(self) -> None:
        if self.log.syncing or self.log.failed or self.log.durable_end_offset >= self.log.end_offset:
            return
        mark, cuts = self.log.begin_sync(), self.log.cuts
        failure, chance = self.world.faults.sync_failure, self.world.chance
        end = self._fail if failure and chance.random() < failure else self._synced
        self.after(self.sync_us(), lambda: end(mark) if cuts == self.log.cuts else None)

    def _synced(self, mark: int) -> None:
        self.log.end_sync(mark)
        self.run(lambda: self.core.durable(self.now_ms))
        self._sync()

    def _fail(self, mark: int) -> None:
        """The sync has failed, as the driver handles it; the writes that wait for it fail."""
        self.world.tally["sync_failed"] += 1
        self.log.fail_sync(mark, is_kept=self.world.chance.random() < 0.3)
        self.waiting.clear()
        self.run(self._hand_over)
        self.after(self.sync_us() * 2, self._open_again)

    def _hand_over(self) -> None:
        self.core.hand_over(self.now_ms)

    def _open_again(self) -> None:
        if self.log.failed:
            self.world.oracle.loses(self, len(self.disk.records))
            self.log.open_again()
            self.core.durable(self.now_ms)
            self.run(lambda: None)

    # Snapshots

    def _take_snapshot(self) -> None:
        """Writes a snapshot when enough is committed since the last one; then trims the log."""
        every, end_offset = self.world.faults.snapshot_every, self.core.high_watermark
        if self.taking or not every:
            return
        newest = self.disk.newest_snapshot
        if end_offset - (newest.end_offset if newest else 0) < every:
            return
        self.taking = True
        snapshot = SnapshotId(end_offset, self.log.entries[end_offset - 1][0])
        self.write_snapshot(snapshot, self.log.content(end_offset))

    def write_snapshot(self, snapshot: SnapshotId, content: Content) -> None:
        def written() -> None:
            self.disk.snapshots[snapshot] = content
            self.world.tally["snapshots"] += 1
            self.world.oracle.snapshot_taken(self, snapshot)
            self.trim()

        self._crash_early(0.03)
        self.after(self.sync_us(), written)

    def trim(self) -> None:
        """Trims the log to the oldest of the kept snapshots, and drops the older ones."""

        def trimmed() -> None:
            self.disk.start = max(self.disk.start, oldest.end_offset)
            for each in [each for each in self.disk.snapshots if each.end_offset < self.disk.start]:
                del self.disk.snapshots[each]
            self.world.oracle.trimmed(self)
            self.taking = False

        oldest = sorted(self.disk.snapshots)[-self.world.faults.snapshots_kept :][0]
        self.after(self.sync_us(), trimmed)

    def propose(self, value: int) -> bool:
        if not self.alive or self.busy or self.log.failed or self.core.state is not State.LEADER:
            return False
        entry = (self.core.epoch, value)
        if self.log.last_epoch != self.core.epoch and not self.core.is_sole_voter:
            return False
        self.waiting.append((self.log.end_offset, entry))
        self.append([entry])
        return True

    def _acknowledge(self) -> None:
        while self.waiting and self.waiting[0][0] < self.core.high_watermark:
            self.world.oracle.acknowledge(*self.waiting.pop(0))
            self.world.tally["acknowledged"] += 1

    def crash(self) -> None:
        """Loses what is in memory; of pending writes any part may have reached the disk."""
        self.alive = False
        unsynced = self.log.entries[len(self.disk.records) :]
        if unsynced and self.world.chance.random() < self.world.faults.keeps_unsynced:
            self.disk.records = self.disk.records + unsynced[: self.world.chance.randint(0, len(unsynced))]
