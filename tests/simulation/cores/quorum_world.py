"""A quorum in one process on a heap of events: the production machine, a network, disks and clocks that fail by seed.

A node does what a `Ready` says in its order, and takes nothing else meanwhile. Everything takes time: messages, syncs
of the log, writes of the election state and of snapshots. A crash loses what was not synced, or by chance a part of it.
Every node takes snapshots of what is committed, and trims its log; one that lacks what was trimmed downloads them.

    python tests/simulation/cores/quorum_world.py SEED [VOTERS]     # prints the digest, and the violation if any
"""

import hashlib
import heapq
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from quorum_disks import Disk, Entry, Log
from quorum_faults import SECOND, VOTING, Faults
from quorum_invariants import Invariant, Oracle, Violation

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
    Timing,
    Vote,
    VoteAnswer,
)
from odradek.wire.errors import ErrorCode

LONG_POLL_US: Final = SECOND // 2
FETCHED_AT_ONCE: Final = 5
DOWNLOADED_AT_ONCE: Final = 7
QUICK: Final = Timing(election_ms=150, fetch_ms=300, request_ms=300)


@dataclass
class Parked:
    """A fetch that waits for news at the leader."""

    source: int
    number: int
    incarnation: int
    request: Fetch
    until_us: int


class Node:
    """One machine: what it keeps, and the process that runs on it."""

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
        self.inbox: deque[Callable[[], Callable[[], None] | None]] = deque()
        self.parked: list[Parked] = []
        self.waiting: list[tuple[int, Entry]] = []
        self.seen_high_watermark = 0
        self.leads_since_us = 0
        self.timer = 0
        self.taking = False
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

    # One event after the other

    def run(self, event: Callable[[], Callable[[], None] | None]) -> None:
        """Let `event` happen when all before it is done; it may return a reply, to be sent after what it led to."""
        self.inbox.append(event)
        self._next()

    def _next(self) -> None:
        if not self.draining:  # an event that is done leads here, too: the loop below goes on
            self.draining = True
            self._drain()
            self.draining = False

    def _drain(self) -> None:
        while self.alive and not self.busy and self.inbox:
            if self.world.now_us < self.paused_until_us:
                self.after(self.paused_until_us - self.world.now_us, self._next)
                return
            reply = self.inbox.popleft()()
            self.world.oracle.stepped(self, self.world.nodes)
            self.busy = True
            self._carry_out(self.core.ready(), reply)

    def _carry_out(self, ready: Ready, reply: Callable[[], None] | None) -> None:
        if ready.election is not None:
            self._crash_early()
            self._persist(ready.election, lambda: self._cut(ready, reply))
        else:
            self._cut(ready, reply)

    def _crash_early(self, probability: float = 0.2) -> None:
        """By chance the process dies around the moment at which it makes its vote, or a snapshot, durable."""
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

    def _cut(self, ready: Ready, reply: Callable[[], None] | None) -> None:
        if ready.restart_at is not None:
            self._begin_anew(ready, ready.restart_at, reply)
            return
        if ready.cut_at is None:
            self._finish(ready, reply)
            return
        cut_at = ready.cut_at

        def done() -> None:
            self.log.cut(cut_at)
            self._finish(ready, reply)
            self.run(lambda: self.core.durable(self.now_ms))
            self._sync()

        self.after(self.sync_us(), done)

    def _begin_anew(self, ready: Ready, snapshot: SnapshotId, reply: Callable[[], None] | None) -> None:
        """First the snapshot is made durable, then the log begins anew."""

        def kept() -> None:
            if snapshot not in self.disk.snapshots:
                self.disk.snapshots[snapshot] = tuple(self.staged)
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

    def _finish(self, ready: Ready, reply: Callable[[], None] | None) -> None:
        self.busy = False
        if ready.role is not None:
            self.waiting.clear()
            if ready.role.state is State.LEADER:
                self.world.tally["elections"] += 1
                self.leads_since_us = self.world.now_us
                self.append([(ready.role.epoch, 0)])
        for send in ready.sends:
            self._send(send)
        if reply is not None:
            reply()
        self._serve_parked()
        self._acknowledge()
        self._take_snapshot()
        self._set_timer()
        self._next()

    def _send(self, send: Send) -> None:
        request = send.request
        if isinstance(request, Fetch):
            self.world.oracle.fetches(self, request.offset)
        elif isinstance(request, Vote) and not request.pre_vote:
            self.world.oracle.voted(self, request.epoch, self.core.me)
        target, number, incarnation = self.world.nodes[send.to], send.number, self.incarnation
        self.world.deliver(self, target, lambda: target.asked(self.id, number, incarnation, request))

    def _set_timer(self) -> None:
        self.timer += 1
        timer, due_ms = self.timer, self.core.deadline_ms(self.now_ms)
        if due_ms is not None:
            wait_us = max(int((due_ms - self.now_ms) * 1000 / self.rate), 0) + 1000
            self.after(
                wait_us, lambda: self.run(lambda: self.core.on_time(self.now_ms)) if timer == self.timer else None
            )

    def after(self, delay_us: int, call: Callable[[], object]) -> None:
        """Call, unless the process has ended by then."""
        incarnation = self.incarnation

        def due() -> None:
            if self.alive and self.incarnation == incarnation:
                call()

        self.world.after(delay_us, due)

    # Messages

    def asked(self, source: int, number: int, incarnation: int, request: Request) -> None:
        def event() -> Callable[[], None] | None:
            if isinstance(request, Fetch):
                return self._fetch(Parked(source, number, incarnation, request, self.world.now_us + LONG_POLL_US))
            if isinstance(request, FetchSnapshot):
                part, records = self._part_of_snapshot(request)
                return lambda: self._reply(source, number, incarnation, request, part, records)
            answer = self._answer(request)
            return lambda: self._reply(source, number, incarnation, request, answer, [])

        self.run(event)

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

        def arrive() -> None:
            if target.incarnation == incarnation:
                target.run(lambda: target.take(self.id, number, answer, records))

        self.world.deliver(self, target, arrive)

    def _part_of_snapshot(self, request: FetchSnapshot) -> tuple[FetchSnapshotAnswer, list[Entry]]:
        error = self.core.fetch_snapshot(request, self.now_ms)
        content = self.disk.snapshots.get(request.snapshot)
        if not error and content is None:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        if error or content is None:
            return FetchSnapshotAnswer(error, self.core.epoch, self.core.leader_id), []
        part = list(content[request.position :][:DOWNLOADED_AT_ONCE])
        core, at, size = self.core, request.position, len(content)
        return FetchSnapshotAnswer(error, core.epoch, core.leader_id, request.snapshot, size, at, len(part)), part

    def take(self, source: int, number: int, answer: Answer, records: list[Entry]) -> None:
        if isinstance(answer, FetchSnapshotAnswer):
            if self.core.answered(source, number, answer, self.now_ms):
                self._store(answer, records)
        elif self.core.answered(source, number, answer, self.now_ms):
            self.append(records)
            self.core.durable(self.now_ms)

    def _store(self, answer: FetchSnapshotAnswer, records: list[Entry]) -> None:
        snapshot, end = answer.snapshot, answer.position + len(records)

        def done() -> None:
            if answer.position == 0:
                self.staged_of, self.staged = snapshot, []
            if (self.staged_of, len(self.staged)) != (snapshot, answer.position):  # of a download that was given up
                self.run(lambda: self.core.not_stored(snapshot, self.now_ms))
                return
            self.staged += records
            self.run(lambda: self.core.stored(snapshot, end, self.now_ms, is_whole=end == answer.size))

        self.after(self.sync_us(), done)

    def _fetch(self, parked: Parked) -> Callable[[], None] | None:
        answer = self.core.fetch(parked.request, self.now_ms)
        if answer.error or answer.diverging is not None or answer.snapshot is not None:
            request = parked.request
            return lambda: self._reply(parked.source, parked.number, parked.incarnation, request, answer, [])
        self.parked.append(parked)
        self.after(LONG_POLL_US, self._serve_parked)
        return None

    def _serve_parked(self) -> None:
        waiting, self.parked = self.parked, []
        for parked in waiting:
            request = parked.request
            records = self.log.entries[request.offset : self.log.readable_end_offset][:FETCHED_AT_ONCE]
            error = self.core.check_fetch(request.epoch)
            is_trimmed = request.offset < self.disk.start
            is_news = is_trimmed or records or error or self.core.high_watermark > request.high_watermark
            if not is_news and self.world.now_us < parked.until_us:
                self.parked.append(parked)
                continue
            core = self.core
            answer = FetchAnswer(error, core.epoch, core.leader_id, core.high_watermark)
            records = [] if error or is_trimmed else records
            self._reply(parked.source, parked.number, parked.incarnation, request, answer, records)

    # The log

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.log.entries.append(entry)
            self.world.oracle.wrote(self, len(self.log.entries) - 1)
        self._sync()

    def _sync(self) -> None:
        if self.log.syncing or self.log.durable_end_offset >= self.log.end_offset:
            return
        mark, cuts = self.log.begin_sync(), self.log.cuts
        self.after(self.sync_us(), lambda: self._synced(mark) if cuts == self.log.cuts else None)

    def _synced(self, mark: int) -> None:
        self.log.end_sync(mark)
        self.run(lambda: self.core.durable(self.now_ms))
        self._sync()

    # Snapshots

    def _take_snapshot(self) -> None:
        """Write a snapshot when enough is committed since the last one; then trim the log."""
        every, newest = self.world.faults.snapshot_every, self.disk.newest_snapshot
        end_offset = self.core.high_watermark
        if self.taking or not every or end_offset - (newest.end_offset if newest else 0) < every:
            return
        self.taking = True
        snapshot = SnapshotId(end_offset, self.log.entries[end_offset - 1][0])
        content = tuple(self.log.entries[:end_offset])
        self.write_snapshot(snapshot, content)

    def write_snapshot(self, snapshot: SnapshotId, content: tuple[Entry, ...]) -> None:
        def written() -> None:
            self.disk.snapshots[snapshot] = content
            self.world.tally["snapshots"] += 1
            self.world.oracle.snapshot_taken(self, snapshot)
            self.trim()

        self._crash_early(0.03)
        self.after(self.sync_us(), written)

    def trim(self) -> None:
        """Let the log begin behind the oldest of the snapshots that are kept, and drop those before."""

        def trimmed() -> None:
            self.disk.start = max(self.disk.start, oldest.end_offset)
            for each in [each for each in self.disk.snapshots if each.end_offset < self.disk.start]:
                del self.disk.snapshots[each]
            self.world.oracle.trimmed(self)
            self.taking = False

        oldest = sorted(self.disk.snapshots)[-self.world.faults.snapshots_kept :][0]
        self.after(self.sync_us(), trimmed)

    def propose(self, value: int) -> bool:
        if not self.alive or self.busy or self.core.state is not State.LEADER:
            return False
        entry = (self.core.epoch, value)
        if self.log.entries[-1][0] != self.core.epoch:
            return False
        self.waiting.append((self.log.end_offset, entry))
        self.append([entry])
        return True

    def _acknowledge(self) -> None:
        while self.waiting and self.waiting[0][0] < self.core.high_watermark:
            self.world.oracle.acknowledge(*self.waiting.pop(0))
            self.world.tally["acknowledged"] += 1

    def crash(self) -> None:
        """Lose what is in memory; of what was on its way to the disk any part may have arrived."""
        self.alive = False
        unsynced = self.log.entries[len(self.disk.records) :]
        if unsynced and self.world.chance.random() < self.world.faults.keeps_unsynced:
            self.disk.records = self.disk.records + unsynced[: self.world.chance.randint(0, len(unsynced))]


class World:
    """All nodes, and the time. Node ids are the indexes of `nodes`; the last one is an observer."""

    def __init__(self, seed: int, voters: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(f"{seed}/{voters}")
        self.faults = faults or Faults.drawn(self.chance)
        self.timing = QUICK if faults is VOTING else self.chance.choice((Timing(), QUICK))
        self.voters = tuple(range(voters))
        self.oracle = Oracle(voters)
        self.tally: Counter[str] = Counter()
        self.now_us = 0
        self.steps = 0
        self.breaking = self.loading = False
        self.blocked: set[tuple[int, int]] = set()
        self._digest = hashlib.blake2b(digest_size=8)
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._values = 0
        self.nodes: list[Node] = []
        self._populate()
        for node in self.nodes:
            node.start()

    def _populate(self) -> None:
        for each in range(len(self.voters) + 1):
            self.nodes.append(Node(self, each, is_voter=each in self.voters))

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def after(self, delay_us: int, call: Callable[[], object]) -> None:
        self.steps += 1
        heapq.heappush(self._heap, (self.now_us + max(delay_us, 0), self.steps, call))

    def sync_us(self) -> int:
        stalls = self.faults.stall and self.chance.random() < self.faults.stall
        return self.chance.randint(0, 3 * SECOND) if stalls else self.chance.randint(*self.faults.sync_us)

    def deliver(self, source: Node, target: Node, arrive: Callable[[], None]) -> None:
        faults = self.faults
        copies = 2 if faults.duplicates and self.chance.random() < faults.duplicates else 1
        for _ in range(copies):
            if faults.loss and self.chance.random() < faults.loss:
                continue
            delay_us = self.chance.randint(*faults.delay_us)
            if faults.spike and self.chance.random() < faults.spike:
                delay_us += self.chance.randint(0, 3 * SECOND)
            self.after(delay_us, lambda: self._arrive(source, target, arrive))

    def _arrive(self, source: Node, target: Node, arrive: Callable[[], None]) -> None:
        if target.alive and (source.id, target.id) not in self.blocked:
            self._digest.update(f"{self.now_us} {source.id} {target.id}\n".encode())
            arrive()

    def run(self, duration_us: int) -> None:
        end_us = self.now_us + duration_us
        while self._heap and self._heap[0][0] <= end_us:
            self.now_us, _, call = heapq.heappop(self._heap)
            call()
        self.now_us = end_us

    # Load and faults

    def load(self) -> None:
        self._values += 1
        for node in self.nodes:
            node.propose(self._values)
        if self.loading:
            self.after(self.chance.randint(1_000, 100_000), self.load)

    def break_something(self) -> None:
        kind, node = self.chance.choice(self.faults.kinds), self.chance.choice(self.nodes)
        lasts_us = self.chance.randint(SECOND // 10, 6 * SECOND)
        self.tally[kind] += 1
        if kind == "pause":
            node.paused_until_us = self.now_us + lasts_us
        elif kind == "crash":
            self.end(node, lasts_us)
        elif kind == "wipe":
            self._wipe(self.nodes[-1], lasts_us)
        elif kind == "stop":
            node.run(lambda: node.core.stop(node.now_ms))
            self.after(SECOND // 2, lambda: self.end(node, lasts_us))
        elif kind != "early_crash":
            self._part(self._links(kind, node), lasts_us)
        if self.breaking:
            self.after(self.chance.randint(0, 2 * self.faults.every_us), self.break_something)

    def _wipe(self, node: Node, lasts_us: int) -> None:
        """Give an observer an empty disk; a voter is not to come back without what it has told."""
        if node.alive and not node.is_voter:
            node.crash()
            node.disk = Disk()
            self.after(lasts_us, node.start)

    def end(self, node: Node, lasts_us: int) -> None:
        """Crash a process, and start another one later."""
        if node.alive:
            node.crash()
            self.after(lasts_us, node.start)

    def _links(self, kind: str, node: Node) -> set[tuple[int, int]]:
        others = [each.id for each in self.nodes if each is not node]
        if kind == "one_way":
            chosen = self.chance.choice(others)
            return self.chance.choice(({(node.id, chosen)}, {(node.id, each) for each in others}))
        side = {node.id, *(self.chance.sample(others, len(others) // 2) if kind == "split" else ())}
        return {(a, b) for a in range(len(self.nodes)) for b in range(len(self.nodes)) if (a in side) != (b in side)}

    def _part(self, links: set[tuple[int, int]], lasts_us: int) -> None:
        self.blocked |= links

        def heal() -> None:
            self.blocked -= links

        self.after(lasts_us, heal)

    def live(self, seconds: int) -> None:
        """Load and faults for a while; then all is healed, and the quorum has to commit again."""
        self.breaking = self.loading = True
        self.after(0, self.load)
        self.after(SECOND, self.break_something)
        self.run(seconds * SECOND)
        self.breaking = False
        self.run(8 * SECOND)  # until the last fault is over
        self.faults = Faults()
        self.blocked.clear()
        self.run(10 * SECOND)
        self._check_healed()

    def _check_healed(self) -> None:
        before = len(self.oracle.committed)
        self.run(5 * SECOND)
        leaders = [node.id for node in self.nodes if node.core.state is State.LEADER]
        if len(leaders) != 1 or len(self.oracle.committed) <= before:
            raise Violation(Invariant.PROGRESS, f"leaders {leaders}, committed {before}")
        self._check_resigned()
        self.loading = False
        self.run(10 * SECOND)
        self.oracle.at_end(self.nodes)

    def _check_resigned(self) -> None:
        """A leader that is cut off from all resigns within the time of check-quorum, on its own clock."""
        leader = next(node for node in self.nodes if node.core.state is State.LEADER)
        epoch = leader.core.epoch
        self.blocked = self._links("cut_off", leader)
        self.run(int(self.timing.check_quorum_ms * 1000 / 0.9) + 2 * SECOND)
        if leader.core.state is State.LEADER and leader.core.epoch == epoch:
            raise Violation(Invariant.RESIGNS, f"node {leader.id} leads epoch {epoch} alone")
        self.blocked.clear()
        self.run(8 * SECOND)


@dataclass
class Result:
    seed: int
    voters: int
    violation: Violation | None
    digest: str
    tally: Counter[str]

    def explain(self) -> str:
        return (
            f"seed {self.seed}, {self.voters} voters: {self.violation}\n"
            f"to see it again: python tests/simulation/cores/quorum_world.py {self.seed} {self.voters}"
        )


def simulate(
    seed: int, voters: int = 3, faults: Faults | None = None, seconds: int = 15, kind: type[World] = World
) -> Result:
    world, violation = kind(seed, voters, faults), None
    try:
        world.live(seconds)
    except Violation as found:
        violation = found
    return Result(seed, voters, violation, world.digest, world.tally)


if __name__ == "__main__":
    shown = simulate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    print(shown.explain() if shown.violation else f"seed {shown.seed} holds {dict(shown.tally)}")
    print(shown.digest)
