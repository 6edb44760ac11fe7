"""A quorum whose voters change (KIP-853): replicas, also leaders, are added and removed under every mix of faults.

The first record of the log has the voters. All other nodes only have bootstrap servers, as with
`controller.quorum.bootstrap.servers`. Disks of voters are lost as well, as long as the other voters have a majority:
the replica on the new disk has another directory, does not vote as the old one, and is added in its place.

    python tests/simulation/cores/voters_world.py SEED [VOTERS]
"""

import sys
from collections.abc import Callable, Collection
from functools import partial
from typing import Final
from uuid import UUID

from quorum_disks import Disk, Entry
from quorum_faults import SECOND, Faults
from quorum_invariants import Invariant, Oracle, Violation
from quorum_node import Node
from quorum_world import Result, World, simulate

from odradek.coordinator.quorum.changes import Change, add_voter, remove_voter
from odradek.coordinator.quorum.leadership import Leadership
from odradek.coordinator.quorum.values import Answer, ElectionState, ReplicaKey, Send, State
from odradek.coordinator.quorum.voters import Voter, VotersAt, VoterSet

SPARE: Final = 3
"""The number of nodes that begin as observers."""
PORT: Final = -2
"""Node n is PORT - n in the bootstrap servers."""


class ChangingOracle(Oracle):
    """A record is committed if a majority of the leader's voter set has it; `sets` are the committed voter sets."""

    def __init__(self, first: Entry) -> None:
        super().__init__(0)
        assert isinstance(first[1], VoterSet)
        self.committed.append(first)
        self._ends[0] = 1
        self.sets = [VotersAt(0, first[1])]
        self.lost: dict[ReplicaKey, list[Entry]] = {}
        """The records on lost disks of replicas, which may have acknowledged them; these replicas never vote again."""

    def held(self, node: Node, offset: int, holders: list[Node]) -> None:
        named = node.log.voters
        assert named is not None
        entry = node.log.entries[offset]
        held = [each.key for each in holders if each.key in named.voters]
        held += [key for key, had in self.lost.items() if key in named.voters and had[offset : offset + 1] == [entry]]
        if len(held) < len(named.voters.voters) // 2 + 1:
            raise Violation(Invariant.MAJORITY, f"offset {offset} is on the disks of {held} of {named.voters}")
        value = node.log.entries[offset][1]
        if isinstance(value, VoterSet):
            self.sets.append(VotersAt(offset, value))

    def changed(self, node: Node, voters: VoterSet) -> None:
        """`node` writes this voter set. It is compared with the last one that is committed for the node."""
        before = next(each.voters for each in reversed(self.sets) if each.offset < node.core.high_watermark)
        differing = _keys(before) ^ _keys(voters)
        if len(differing) > 1:
            raise Violation(Invariant.OVERLAP, f"{_keys(before)} becomes {_keys(voters)}")


def _keys(voters: VoterSet) -> set[ReplicaKey]:
    return {each.key for each in voters.voters}


def _newest(node: "ChangingNode") -> tuple[int, int]:
    """The position that votes compare: the epoch of the last record, and the log end offset."""
    log = node.log
    return log.last_epoch, log.end_offset


class ChangingNode(Node):
    """A node that may become a voter, and later cease to be one."""

    world: "ChangingWorld"
    generation = 0

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, UUID(int=self.id + 1 + 1000 * self.generation))

    def named_voters(self) -> Collection[int]:
        return [PORT - each for each in range(len(self.world.nodes)) if each != self.id]

    def start(self) -> None:
        self.asked_at: dict[int, int] = {}
        super().start()

    def _send(self, send: Send) -> None:
        """Sends to a bootstrap server, which is a node; its answer counts as that server's."""
        if send.to < 0:
            self.asked_at[send.number] = send.to
            send = Send(PORT - send.to, send.number, send.request)
        super()._send(send)

    def take(self, source: int, number: int, answer: Answer, records: list[Entry]) -> None:
        super().take(self.asked_at.pop(number, source), number, answer, records)

    def wipe(self) -> None:
        """Loses the disk."""
        self.crash()
        self.world.oracle.lost[self.key] = self.disk.records
        self.disk = Disk()
        self.generation += 1

    def change(self, decide: Callable[[], Change]) -> None:
        """The leader changes the voters, as the driver does it."""
        change = decide()
        self.world.tally[f"change_{change.error.name}"] += 1
        if change.voters is not None and self.log.entries[-1][0] == self.core.epoch and not self.log.failed:
            self.world.oracle.changed(self, change.voters)
            self.append([(self.core.epoch, change.voters)])
            self.core.durable(self.now_ms)


class ChangingWorld(World):
    """The first `voters` nodes are voters at the beginning."""

    changing = True
    oracle: ChangingOracle
    nodes: list[ChangingNode]

    def __init__(self, seed: int, voters: int, faults: Faults | None = None) -> None:
        super().__init__(seed, voters, faults)
        self.smallest = self.chance.choice((1, 2, 3))

    def _populate(self) -> None:
        self.nodes += [ChangingNode(self, each, is_voter=False) for each in range(len(self.voters) + SPARE)]
        first: Entry = (1, VoterSet.of([Voter(node.key, {}) for node in self.nodes[: len(self.voters)]]))
        self.oracle = ChangingOracle(first)
        for node in self.nodes[: len(self.voters)]:
            node.disk = Disk(ElectionState(1), [first])

    # Changes

    def load(self) -> None:
        if self.changing and self.chance.random() < 0.2:
            self.change_voters()
        super().load()

    def break_something(self) -> None:
        if "wipe" in self.faults.kinds and self.chance.random() < 0.2:
            self._wipe_some()
        super().break_something()

    def _wipe(self, node: Node, lasts_us: int) -> None:
        """The observers of this world are wiped by `_wipe_some`."""

    def _sets(self) -> list[VoterSet]:
        """Every set that is, or may come to be, in force."""
        named = [node.log.voters for node in self.nodes] if all(hasattr(node, "log") for node in self.nodes) else []
        return [self.oracle.sets[-1].voters, *(each.voters for each in named if each is not None)]

    def _lost(self) -> set[ReplicaKey]:
        """The voters whose disks are lost."""
        there = {node.key for node in self.nodes}
        return {key for each in self._sets() for key in _keys(each) if key not in there}

    def _wipe_some(self) -> None:
        node = self.chance.choice(self.nodes)
        sets = self._sets()
        votes = any(node.key in each for each in sets)
        if not node.alive or (votes and (self._lost() or any(len(each.voters) < 3 for each in sets))):
            return
        self.tally["voter_lost" if votes else "observer_lost"] += 1
        node.wipe()
        self.after(self.chance.randint(SECOND // 10, 3 * SECOND), node.start)

    def change_voters(self) -> None:
        """Ask whichever nodes take themselves for leaders to add a node, or to remove one."""
        for node in self.nodes:
            if node.alive and node.core.state is State.LEADER:
                node.run(partial(self._change, node))

    def _change(self, leader: ChangingNode) -> None:
        named = leader.log.voters
        if leader.core.state is not State.LEADER or named is None:
            return
        lost = sorted(self._lost())
        gone = [key for key in lost if key in named.voters]
        outside = [node.key for node in self.nodes if named.voters.get(node.id) is None]
        if gone:
            leader.change(lambda: remove_voter(leader.core, gone[0]))
        elif outside and (self.chance.random() < 0.5 or len(named.voters.voters) <= self.smallest or lost):
            added = self.chance.choice(outside)
            leader.change(lambda: add_voter(leader.core, Voter(added, {}), leader.now_ms))
        elif not lost:
            removed = self.chance.choice(named.voters.voters).key
            leader.change(lambda: remove_voter(leader.core, removed))

    def _check_healed(self) -> None:
        self.changing = False
        self.run(5 * SECOND)
        if self._is_stopped():
            self.tally["stopped"] += 1
        else:
            super()._check_healed()

    def _is_stopped(self) -> bool:
        """True if a lost disk of a voter has left no voter that a majority of its own voter set can elect.

        A change of voters that is not committed makes this possible: the lost disk was that of a later leader, and an
        observer has its records. That observer is a voter in the set of the change and votes for no shorter log.
        """
        leads = any(node.core.state is State.LEADER for node in self.nodes)
        return self.tally["voter_lost"] > 0 and not leads and not any(map(self._can_be_elected, self.nodes))

    def _can_be_elected(self, candidate: ChangingNode) -> bool:
        named = candidate.log.voters
        if named is None or candidate.key not in named.voters:
            return False
        votes = [node for node in self.nodes if node.key in named.voters and _newest(node) <= _newest(candidate)]
        return len(votes) > len(named.voters.voters) // 2

    def _check_resigned(self) -> None:
        """Where one voter is left it needs no other."""
        leader = next(node for node in self.nodes if node.core.state is State.LEADER)
        if isinstance(leader.core.leadership, Leadership) and leader.core.leadership.check_ms is not None:
            super()._check_resigned()


def changing(seed: int, voters: int = 3, faults: Faults | None = None, seconds: int = 15) -> Result:
    return simulate(seed, voters, faults, seconds, ChangingWorld)


if __name__ == "__main__":
    shown = changing(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    print(shown.violation or f"seed {shown.seed} holds {dict(shown.tally)}")
    print(shown.digest)
