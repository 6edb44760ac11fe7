"""Three replicas of a partition on a heap of events: production leader, follower and truncation over memory stores.

A scripted controller assigns leader epochs and ISRs by Kafka's rules (fencing, ELR, AlterPartition with its checks).
Everything takes time: messages, syncs, truncations, the delivery of an image to a broker. A crash loses what was not
synced; a lossy one also a part of what was, on at most min.insync.replicas - 1 replicas at a time, as seen by the
controller.

    python tests/simulation/cores/replication_world.py SEED       # prints the digest, and the violation if any
"""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from event_queue import Chance, EventQueue
from replication_controller import IDS, Controller, Image
from replication_invariants import Invariant, Oracle, Violation
from replication_node import Node, Producer

from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import read_records

KINDS: Final = ("crash", "lossy", "cut_off", "one_way", "slow_disk", "late")
FAILING: Final = (*KINDS, "bad_disk", "bad_disk")
"""Writes fail, too, and the log is then opened again. The disk may have what has failed."""
DELETING: Final = (*FAILING, "wiped", "delete", "delete", "delete", "delete")
"""Records are deleted, too, so that logs begin inside batches, and disks lose everything. Batches have more records."""


class World(EventQueue):
    """Everything of one run, which has faults for `seconds`."""

    def __init__(self, seed: int, faults: tuple[str, ...] | None = None, seconds: int = 6) -> None:
        super().__init__()
        self.calm_ms = seconds * 1000
        self.chance = Chance(seed)
        self.tally: Counter[str] = Counter()
        self.oracle = Oracle()
        self.cut_links: set[tuple[int, int]] = set()
        self.late_us = 0
        self.lossy: set[int] = set()
        self.changes = 0
        self._checked: tuple[Image | None, int, int] = (None, 0, 0)
        self.controller = Controller(self, self.publish)
        self.nodes = {each: Node(self, each) for each in IDS}
        for node in self.nodes.values():
            node.start(clean=True, first=True)
        self.kinds = (
            faults if faults is not None else tuple(self.chance.sample(KINDS, self.chance.randint(2, len(KINDS))))
        )
        self.deletes = "delete" in self.kinds
        self.producers = [Producer(self, 1, -1), Producer(self, 2, -1), Producer(self, 3, 1)]
        for producer in self.producers:
            self.after(1_000, producer.send)
        self.after(0, self.look)
        self.after(300_000, self.hurt)

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def send(self, source: int, target: int, call: Callable[[], None]) -> None:
        """Delivers a message, unless the link is cut when it leaves or arrives. 0 is the controller, -1 the clients."""
        delay_us = self.chance.randint(200, 4_000)
        if self.late_us and self.chance.random() < 0.1:
            delay_us += self.chance.randint(0, self.late_us)
        link = (source, target)
        if link not in self.cut_links:
            self.after(delay_us, partial(self._arrive, link, call))

    def _arrive(self, link: tuple[int, int], call: Callable[[], None]) -> None:
        if link not in self.cut_links:
            call()

    def publish(self, image: Image) -> None:
        """Sends the image to every broker, late and in order; a broker uses the newest image that it has received."""
        for node in self.nodes.values():
            self._publish(node, image)

    def _publish(self, node: Node, image: Image) -> None:
        """A process that starts has the newest image: none that was sent to the one before it arrives there."""
        delay_us = self.chance.randint(500, 20_000 + self.late_us // 4)
        at_us = node.image_at_us = max(self.now_us + delay_us, node.image_at_us)
        self.after_of(node, at_us - self.now_us, lambda: None if self.is_cut(node.id) else node.publish(image))

    def is_cut(self, node_id: int) -> bool:
        return (0, node_id) in self.cut_links

    def look(self) -> None:
        self.controller.look()
        for node in self.nodes.values():  # a lost image is sent again
            if node.alive and not self.is_cut(node.id) and node.image is not self.controller.now:
                self._publish(node, self.controller.now)
        self.after(50_000, self.look)

    # Faults

    def hurt(self) -> None:
        if self.now_ms > self.calm_ms or not self.kinds:
            return
        kind = self.chance.choice(self.kinds)
        self.tally[kind] += 1
        getattr(self, f"_{kind}")(self.nodes[self.chance.choice(IDS)])
        self.after(self.chance.randint(50_000, 900_000), self.hurt)

    def _crash(self, node: Node) -> None:
        node.crash()
        self.after(self.chance.randint(20_000, 900_000), lambda: self.restart(node, clean=True))

    def restart(self, node: Node, *, clean: bool) -> None:
        if not node.alive:
            node.start(clean=clean and node.id not in self.lossy)

    def _lossy(self, node: Node) -> None:
        self._lose(node, whole=False)

    def _wiped(self, node: Node) -> None:
        self._lose(node, whole=True)

    def _delete(self, _node: Node) -> None:
        leader = self.nodes.get(self.controller.now.leader)
        if leader is not None and leader.alive:
            leader.delete_records()

    def _lose(self, node: Node, *, whole: bool) -> None:
        are_back = all(self.nodes[each].alive for each in self.lossy)
        if set(self.controller.now.isr) == set(IDS) and are_back:
            self.lossy = {node.id}
            node.crash()
            node.lose(len(node.durable) if whole else self.chance.randint(1, 6))
            self.after(self.chance.randint(1_000, 200_000), lambda: self.restart(node, clean=False))

    def _cut_off(self, node: Node) -> None:
        self._cut([(node.id, other) for other in (*IDS, 0)] + [(other, node.id) for other in (*IDS, 0)])

    def _one_way(self, node: Node) -> None:
        other = self.chance.choice([each for each in (*IDS, 0) if each != node.id])
        self._cut([(node.id, other)])

    def _cut(self, links: list[tuple[int, int]]) -> None:
        self.cut_links.update(links)
        self.after(self.chance.randint(50_000, 1_500_000), lambda: self.cut_links.difference_update(links))

    def _slow_disk(self, node: Node) -> None:
        node.slow_us = self.chance.randint(10_000, 400_000)
        self.after(self.chance.randint(100_000, 1_500_000), lambda: setattr(node, "slow_us", 0))

    def _bad_disk(self, node: Node) -> None:
        node.failure = self.chance.choice((0.1, 0.5))
        node.slow_us = self.chance.choice((0, 400_000))
        self.after(self.chance.randint(100_000, 1_500_000), partial(self._mend_disk, node))

    def _mend_disk(self, node: Node) -> None:
        node.slow_us, node.failure = 0, 0.0

    def _late(self, _node: Node) -> None:
        self.late_us = self.chance.randint(50_000, 1_500_000)
        self.after(self.chance.randint(500_000, 2_000_000), lambda: setattr(self, "late_us", 0))

    # Running

    def run(self, until_ms: int) -> None:
        controller, oracle, note = self.controller, self.oracle, self.trace.note
        for number, call in self.due(until_ms * 1000):
            if call is not None:
                call()
                if self._checked != (controller.now, oracle.end_offset, self.changes):
                    self._check_in_sync()
            note(f"{self.now_us} {number} {oracle.end_offset}")

    def _check_in_sync(self) -> None:
        """Every eligible replica has all committed records. The controller learns of a lossy disk at its registration.

        Checked when eligibility, committed records, a disk or a process has changed.
        """
        now = self.controller.now
        for broker_id in (*now.isr, *now.elr):
            node = self.nodes[broker_id]
            if node.alive or broker_id not in self.lossy:
                self.oracle.in_sync(node.name, node.held)
        self._checked = (now, self.oracle.end_offset, self.changes)

    def finish(self) -> None:
        """Heals everything, waits until nothing changes, and checks what is left."""
        self.run(self.calm_ms)
        self.cut_links.clear()
        self.late_us = 0
        for node in self.nodes.values():
            self._mend_disk(node)
        acknowledged = self.tally["acknowledged"]
        self.run(self.calm_ms + 4_000)
        now = self.controller.now
        if self.tally["acknowledged"] == acknowledged or set(now.isr) != set(IDS):
            raise Violation(Invariant.PROGRESS, f"isr {now.isr} of leader {now.leader}")
        for node in self.nodes.values():
            node.held.forget()
            self.oracle.in_sync(node.name, node.held)
        self._check_acknowledged()

    def _check_acknowledged(self) -> None:
        values = Counter(
            record.value
            for _, _, data in self.oracle.committed
            for header in iter_headers(memoryview(data))
            for record in read_records(memoryview(data), header)
        )
        for value in self.oracle.acknowledged:
            if values[value] != 1:
                raise Violation(Invariant.ACKNOWLEDGED_ONCE, f"{value!r} is there {values[value]} times")


@dataclass
class Result:
    """The outcome of one run."""

    seed: int
    violation: Violation | None
    digest: str
    tally: Counter[str]
    simulated_us: int
    events: int

    def explain(self) -> str:
        return f"seed {self.seed}: {self.violation} {dict(self.tally)}\npython {__file__} {self.seed}"


def simulate(seed: int, faults: tuple[str, ...] | None = None, seconds: int = 6) -> Result:
    world = World(seed, faults, seconds)
    violation = None
    try:
        world.finish()
    except Violation as broken:
        violation = broken
    return Result(seed, violation, world.digest, world.tally, world.now_us, world.done)


if __name__ == "__main__":
    result = simulate(int(sys.argv[1]))
    print(result.explain() if result.violation else result.digest)
