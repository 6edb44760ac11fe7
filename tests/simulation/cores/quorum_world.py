"""A quorum in one process on a heap of events: production state machines, with faults of network, disks and clocks.

The nodes are those of `quorum_node.py`. Everything takes time: messages, syncs of the log, writes of the election state
and of snapshots. A crash loses what was not synced, or by chance a part of it. Every node takes snapshots of what is
committed, and trims its log; a node that lacks trimmed records downloads them.

    python tests/simulation/cores/quorum_world.py SEED [VOTERS]   # prints the digest, and the violation if any
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from event_queue import Chance, EventQueue
from quorum_disks import Disk
from quorum_faults import SECOND, VOTING, Faults
from quorum_invariants import Invariant, Oracle, Violation
from quorum_node import Node

from odradek.coordinator.quorum.values import State, Timing

BOUT_S: Final = 15
LAST_FAULT_S: Final = 8
"""By then the last fault of a bout is over."""
REST_S: Final = 5
QUICK: Final = Timing(election_ms=150, fetch_ms=300, request_ms=300)


class World(EventQueue):
    """All nodes, and the time. Node ids are the indexes of `nodes`; the last one is an observer."""

    def __init__(self, seed: int, voters: int, faults: Faults | None = None) -> None:
        super().__init__()
        self.seed = seed
        self.chance = Chance(f"{seed}/{voters}")
        self.faults = faults or Faults.drawn(self.chance)
        self.timing = QUICK if faults is VOTING else self.chance.choice((Timing(), QUICK))
        self.voters = tuple(range(voters))
        self.oracle = Oracle(voters)
        self.tally: Counter[str] = Counter()
        self.breaking = self.loading = False
        self.blocked: set[tuple[int, int]] = set()
        self._values = 0
        self.nodes: list[Node] = []
        self._populate()
        for node in self.nodes:
            node.start()

    def _populate(self) -> None:
        for each in range(len(self.voters) + 1):
            self.nodes.append(Node(self, each, is_voter=each in self.voters))

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
            self.after(delay_us, partial(self._arrive, source, target, arrive))

    def _arrive(self, source: Node, target: Node, arrive: Callable[[], None]) -> None:
        if target.alive and (source.id, target.id) not in self.blocked:
            self.trace.note(f"{self.now_us} {source.id} {target.id}\n")
            arrive()

    def run(self, duration_us: int) -> None:
        end_us = self.now_us + duration_us
        for _, call in self.due(end_us):
            if call is not None:
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
        """Gives an observer an empty disk; a voter must not restart without what it has acknowledged."""
        if node.alive and not node.is_voter:
            node.crash()
            node.disk = Disk()
            self.after(lasts_us, node.start)

    def end(self, node: Node, lasts_us: int) -> None:
        """Crashes a process, and starts another one later."""
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
        """Load, and faults in bouts of `seconds` in total; then all is healed, and the quorum has to commit again.

        Between the bouts nothing fails: where messages and disks are slow as well, almost nothing is committed in them.
        """
        self.loading = True
        self.after(0, self.load)
        for begun_s in range(0, seconds, BOUT_S):
            if begun_s:
                self._rest()
            self.breaking = True
            self.after(SECOND, self.break_something)
            self.run(min(BOUT_S, seconds - begun_s) * SECOND)
            self.breaking = False
            self.run(LAST_FAULT_S * SECOND)
        self.faults = Faults()
        self.blocked.clear()
        self.run(10 * SECOND)
        self._check_healed()

    def _rest(self) -> None:
        faults, self.faults = self.faults, Faults()
        self.run(REST_S * SECOND)
        self.faults = faults

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
        """A leader that is cut off from all resigns within the time of check-quorum, by its own clock."""
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
    simulated_us: int
    events: int

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
    return Result(seed, voters, violation, world.digest, world.tally, world.now_us, world.done)


if __name__ == "__main__":
    shown = simulate(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    print(shown.explain() if shown.violation else f"seed {shown.seed} holds {dict(shown.tally)}")
    print(shown.digest)
