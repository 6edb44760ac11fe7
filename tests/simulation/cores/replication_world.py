"""Three replicas of a partition on a heap of events: the production leader, follower and truncation over memory stores.

A scripted controller hands out leader epochs and ISRs by Kafka's rules (fencing, ELR, AlterPartition with its checks).
Everything takes time: messages, syncs, truncations, the way of an image to a broker. A crash loses what was not synced;
a lossy one a part of what was, too, of at most min.insync.replicas - 1 replicas at a time, as the controller learns.

    python tests/simulation/cores/replication_world.py SEED     # prints the digest, and the violation if any
"""

import hashlib
import heapq
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from replication_controller import IDS, MIN_INSYNC, Controller, Image
from replication_invariants import Invariant, Oracle, Violation

from odradek.gateway.replication import following
from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.config import LogConfig
from odradek.partitions.follower import FetchPosition, Follower
from odradek.partitions.in_sync import BrokerStanding, IsrDecision, IsrProposal, Membership
from odradek.partitions.leader import FollowerFetch, Leader
from odradek.partitions.model import LogWrite, PartitionKey
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, EpochEnd, FetchPlan, Rejected
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import ProducerRebuild
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records

KEY: Final = PartitionKey("t", UUID(int=1), 0)
LAG_MS: Final = 300
CALM_MS: Final = 6_000
CONFIG: Final = LogConfig(min_insync_replicas=MIN_INSYNC, replica_lag_time_max_ms=LAG_MS, segment_bytes=600)
KINDS: Final = ("crash", "lossy", "cut_off", "one_way", "slow_disk", "late")


class Node:
    """One broker: a disk that survives, and a process that does not."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.name = f"node {node_id}"
        self.medium = MemoryMedium()
        self.alive = False
        self.life = 0
        self.epoch = node_id
        self.image = world.controller.now
        self.slow_us = 0

    # Life

    def start(self, *, clean: bool, first: bool = False) -> None:
        self.life += 1
        self.alive, self.rewriting = True, False
        self.part = MemoryStore(self.medium).open(KEY, LogPolicy(segment_bytes=CONFIG.segment_bytes))
        self.state = PartitionState.restore(self.part.load(), CONFIG)
        self.look_at_disk()
        self.check_producers()
        self.role: Leader | Follower | None = None
        self.queue: list[tuple[LogWrite, int]] = []
        self.committing = False
        self.waiting: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self.fetching = 0
        if not first:
            self.epoch = self.world.controller.register(self.id, clean=clean)
        self.image = self.world.controller.now
        self.take_role()
        self.later(0, self.beat)
        self.later(0, self.fetch)
        self.later(0, self.watch_lag)

    def crash(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self.life += 1
        self.medium.in_use = False

    def lose(self, batches: int) -> None:
        """The disk forgets its newest batches, and stands as it did before them."""
        kept, rebuild = self.durable_log()[:-batches], ProducerRebuild()
        for _, _, data in kept:
            rebuild.add(memoryview(data))
        self.medium.log(KEY).truncate(kept[-1][1] if kept else 0, rebuild.rows())

    def later(self, delay_us: int, call: Callable[[], None]) -> None:
        life = self.life
        self.world.after(delay_us, lambda: call() if self.life == life else None)

    def beat(self) -> None:
        self.world.send(self.id, 0, lambda epoch=self.epoch: self.world.controller.heartbeat(self.id, epoch))
        self.later(50_000, self.beat)

    # Roles

    def publish(self, image: Image) -> None:
        if self.alive and image is not self.image:
            self.image = image
            self.take_role()

    def standing(self, broker_id: int) -> BrokerStanding | None:
        return self.image.brokers.get(broker_id)

    def take_role(self, *, again: bool = False) -> None:
        image = self.image
        if self.rewriting:
            return
        if self.role is not None and image.leader_epoch == self.state.leader_epoch and not again:
            if isinstance(self.role, Leader):
                self.role.assign(Membership(self.id, IDS, image.isr, image.partition_epoch))
                self.role.advance_at(self.world.now_ms)
                self.moved()
            return
        if image.leader_epoch < self.state.leader_epoch:
            return
        membership = Membership(self.id, IDS, image.isr, image.partition_epoch)
        assigned = Assignment(image.leader_epoch, image.leader, image.leader == self.id, membership)
        self.role, write = assigned.role_over(self.state, self.standing, self.world.now_ms)
        if isinstance(self.role, Leader):
            self.world.oracle.leads(self.name, self.durable)
            self.world.tally["elections"] += 1
        else:
            self.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if write is not None:
            self.submit(write, self.state.log_end_offset)

    # Commits

    def submit(self, write: LogWrite, end_offset: int) -> None:
        self.queue.append((write, end_offset))
        if not self.committing:
            self.commit()

    def commit(self) -> None:
        taken, self.queue = self.queue, []
        self.committing = True
        self.later(self.sync_us(), lambda: self.committed(taken))

    def sync_us(self) -> int:
        return self.world.chance.randint(100, 3_000) + (
            self.world.chance.randint(0, self.slow_us) if self.slow_us else 0
        )

    def committed(self, taken: list[tuple[LogWrite, int]]) -> None:
        self.part.commit([write for write, _ in taken], sync=True)
        for write, _ in taken:
            for batch in write.batches:
                data = bytes(batch.data)
                epoch = int.from_bytes(data[12:16], "big")
                self.world.oracle.durable(self.name, batch.base_offset, epoch, data)
                self.durable.append((batch.base_offset, batch.last_offset + 1, data))
        if self.role is not None:
            self.role.durable(taken[-1][1])
        self.moved()
        self.committing = False
        if self.queue:
            self.commit()

    def moved(self) -> None:
        """The high watermark may have moved."""
        high_watermark = self.state.high_watermark
        if high_watermark != self.told:
            self.checked = self.world.oracle.commits(self.name, high_watermark, self.durable, self.checked)
            self.told = high_watermark
        done = [each for each in self.waiting if each[0] <= high_watermark]
        self.waiting = [each for each in self.waiting if each[0] > high_watermark]
        for _, reply in done:
            reply(ErrorCode.NONE)

    def fail_waits(self, error: ErrorCode) -> None:
        waiting, self.waiting = self.waiting, []
        for _, reply in waiting:
            reply(error)

    def look_at_disk(self) -> None:
        self.durable = self.durable_log()
        self.checked, self.told = 0, -1

    def durable_log(self) -> list[tuple[int, int, bytes]]:
        found = []
        for segment in self.medium.log(KEY).live.segments:
            found += [(each.base_offset, each.last_offset + 1, each.data) for each in segment.batches]
        return found

    def check_producers(self) -> None:
        rebuild = ProducerRebuild()
        for _, _, data in self.durable:
            rebuild.add(memoryview(data))
        if dict(rebuild.rows()) != dict(self.state.producer_states.rows()):
            raise Violation(Invariant.PRODUCERS_KNOWN, f"{self.name} at {self.state.log_end_offset}")

    # Leading

    def produce(self, data: bytes, acks: int, reply: Callable[[ErrorCode], None]) -> None:
        role = self.role
        if self.rewriting or not isinstance(role, Leader):
            reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        now_ms = self.world.now_ms
        result = role.append(
            memoryview(bytearray(data)), origin=AppendOrigin.CLIENT, now_ms=now_ms, all_in_sync=acks == -1
        )
        if isinstance(result, Rejected):
            now = self.world.controller.now
            is_present = (now.leader, now.leader_epoch) == (self.id, self.state.leader_epoch)
            if is_present and self.is_gap(data):
                raise Violation(Invariant.ACKNOWLEDGED_ONCE, f"{self.name} lacks what came before: {result.message}")
            reply(result.error)
            return
        end_offset = result.last_offset + 1
        if isinstance(result, Appended):
            self.submit(result.write, end_offset)
        else:
            assert isinstance(result, Duplicate)
        if acks == -1:
            self.waiting.append((end_offset, reply))
            self.moved()
        else:
            reply(ErrorCode.NONE)

    def is_gap(self, data: bytes) -> bool:
        """Whether the producer is further than this log knows; a late message of it may be far behind."""
        header = next(iter_headers(memoryview(data)))
        entry = self.state.producers.get(header.producer_id)
        return entry is not None and header.base_sequence > entry.last_sequence + 1

    def answer_fetch(
        self, follower: FollowerFetch, position: FetchPosition, reply: Callable[[FetchPlan | Rejected, bytes], None]
    ) -> None:
        role = self.role
        if self.rewriting or not isinstance(role, Leader):
            reply(Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER), b"")
            return
        plan = role.plan_follower_fetch(
            follower,
            position.offset,
            max_bytes=500,
            current_leader_epoch=position.leader_epoch,
            last_fetched_epoch=position.last_fetched_epoch,
        )
        if isinstance(plan, Rejected):
            reply(plan, b"")
            return
        _, proposal = role.record_fetch(follower, plan, self.world.now_ms)
        self.moved()
        if proposal is not None:
            self.propose(role, proposal)
        data = b""
        if plan.diverging is None and not plan.is_empty:
            data = b"".join(self.part.read(plan.start, plan.end, plan.max_bytes).chunks)
        reply(plan._replace(high_watermark=self.state.high_watermark), data)

    def watch_lag(self) -> None:
        role = self.role
        if isinstance(role, Leader) and not self.rewriting:
            role.advance_at(self.world.now_ms)
            self.moved()
            proposal = role.shrinking(self.world.now_ms)
            if proposal is not None:
                self.propose(role, proposal)
        self.later(LAG_MS * 500, self.watch_lag)

    def propose(self, role: Leader, proposal: IsrProposal) -> None:
        """Ask until there is an answer; requests and answers may get lost, and be late."""

        def ask() -> None:
            answer = self.world.controller.alter_partition(self.id, proposal)
            self.world.send(0, self.id, lambda: alive(lambda: answered(answer)))

        def alive(call: Callable[[], None], life: int = self.life) -> None:
            if self.life == life:
                call()

        def answered(answer: IsrDecision | ErrorCode) -> None:
            if self.role is role:
                self.world.tally["proposals answered"] += 1
                role.answered(proposal, answer)
                self.moved()

        def again() -> None:
            if self.role is role and role.in_sync.proposal is proposal:
                self.world.send(self.id, 0, ask)
                self.later(200_000, again)

        again()

    # Following

    def fetch(self) -> None:
        """Fetch on, one request at a time, when all that was fetched is durable."""
        role = self.role
        self.later(self.world.chance.randint(2_000, 15_000), self.fetch)
        if self.rewriting or not isinstance(role, Follower) or role.leader_id < 0 or self.fetching > self.world.now_us:
            return
        if not self.may_fetch():
            return
        self.fetching = self.world.now_us + 100_000
        position, follower = role.position, FollowerFetch(self.id, self.epoch, self.state.log_start_offset)
        leader, life = self.world.nodes[role.leader_id], self.life

        def reply(plan: FetchPlan | Rejected, data: bytes) -> None:
            self.world.send(leader.id, self.id, lambda: self.fetched(life, position, plan, data))

        self.world.send(
            self.id, leader.id, lambda: leader.answer_fetch(follower, position, reply) if leader.alive else None
        )

    def may_fetch(self) -> bool:
        return self.state.durable_end_offset == self.state.log_end_offset

    def fetched(self, life: int, position: FetchPosition, plan: FetchPlan | Rejected, data: bytes) -> None:
        if self.life != life:
            return
        self.fetching = 0
        role = self.role
        if self.rewriting or not isinstance(role, Follower) or role.position != position or isinstance(plan, Rejected):
            return
        if plan.diverging is not None:
            self.truncate(role, plan.diverging)
            return
        result = role.append(memoryview(data))
        assert isinstance(result, Appended), result
        if result.write.batches:
            self.submit(result.write, self.state.log_end_offset)
        role.leader_commits(plan.high_watermark)
        self.moved()

    def truncate(self, role: Follower, diverging: EpochEnd) -> None:
        offset = role.truncation(diverging).offset
        if offset < self.state.high_watermark:
            text = f"{self.name} cuts at {offset}, below {self.state.high_watermark}"
            raise Violation(Invariant.COMMITTED_STAYS, text)
        self.rewriting = True
        self.world.tally["truncations"] += offset < self.state.log_end_offset
        self.later(self.sync_us(), lambda: self.cut(offset))

    def cut(self, offset: int) -> None:
        assert not self.queue
        self.state.truncated(following.cut(self.part, offset))
        self.look_at_disk()
        self.check_producers()
        self.rewriting = False
        self.take_role(again=True)


class Producer:
    """Writes one numbered record after the other; an idempotent one sends each until it is acknowledged."""

    def __init__(self, world: "World", producer_id: int, acks: int) -> None:
        self.world = world
        self.id = producer_id
        self.acks = acks
        self.sequence = 0
        self.attempt = 0
        self.is_done = False

    def send(self) -> None:
        if self.is_done:
            return
        self.attempt += 1
        attempt, value = self.attempt, f"{self.id}/{self.sequence}".encode()
        fields = (
            {"producer_id": self.id, "producer_epoch": 0, "base_sequence": self.sequence} if self.acks == -1 else {}
        )
        data = build_batch([SimpleRecord(b"k", value, self.world.now_ms)], **fields)
        leader = self.world.controller.now.leader if self.world.chance.random() < 0.8 else self.world.chance.choice(IDS)
        node = self.world.nodes.get(leader)

        def reply(error: ErrorCode) -> None:
            self.world.send(leader, -1, lambda: self.answered(attempt, value, error))

        if node is not None:
            self.world.send(-1, leader, lambda: node.produce(data, self.acks, reply) if node.alive else None)
        self.world.after(400_000, lambda: self.send() if attempt == self.attempt else None)

    def answered(self, attempt: int, value: bytes, error: ErrorCode) -> None:
        if attempt != self.attempt:
            return
        if error is ErrorCode.NONE:
            if self.acks == -1:
                self.world.oracle.acknowledged[value] = self.world.now_ms
                self.world.tally["acknowledged"] += 1
            self.sequence += 1
        self.attempt += 1
        self.world.after(self.world.chance.randint(1_000, 20_000), self.send)


class World:
    """Everything of one run."""

    def __init__(self, seed: int, faults: tuple[str, ...] | None = None) -> None:
        self.chance = random.Random(seed)
        self.now_us = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.number = 0
        self.digest = hashlib.sha256()
        self.tally: Counter[str] = Counter()
        self.oracle = Oracle()
        self.cut_links: set[tuple[int, int]] = set()
        self.late_us = 0
        self.lossy: set[int] = set()
        self.controller = Controller(self, self.publish)
        self.nodes = {each: Node(self, each) for each in IDS}
        for node in self.nodes.values():
            node.start(clean=True, first=True)
        self.kinds = (
            faults if faults is not None else tuple(self.chance.sample(KINDS, self.chance.randint(2, len(KINDS))))
        )
        self.producers = [Producer(self, 1, -1), Producer(self, 2, -1), Producer(self, 3, 1)]
        for producer in self.producers:
            self.after(1_000, producer.send)
        self.after(0, self.look)
        self.after(300_000, self.hurt)

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def after(self, delay_us: int, call: Callable[[], None]) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now_us + delay_us, self.number, call))

    def send(self, source: int, target: int, call: Callable[[], None]) -> None:
        """Deliver a message, unless the link is cut when it leaves or arrives. 0 is the controller, -1 the clients."""
        delay_us = self.chance.randint(200, 4_000)
        if self.late_us and self.chance.random() < 0.1:
            delay_us += self.chance.randint(0, self.late_us)

        def arrive() -> None:
            if (source, target) not in self.cut_links:
                call()

        if (source, target) not in self.cut_links:
            self.after(delay_us, arrive)

    def publish(self, image: Image) -> None:
        """Tell every broker, each in order, and late: the newest of what it gets at a time is what it knows."""
        for node in self.nodes.values():
            self._publish(node, image)

    def _publish(self, node: Node, image: Image) -> None:
        delay_us = self.chance.randint(500, 20_000 + self.late_us // 4)
        at_us = max(self.now_us + delay_us, self.tally[f"image of {node.id}"])
        self.tally[f"image of {node.id}"] = at_us
        self.after(
            at_us - self.now_us, lambda: node.publish(image) if node.alive and not self.is_cut(node.id) else None
        )

    def is_cut(self, node_id: int) -> bool:
        return (0, node_id) in self.cut_links

    def look(self) -> None:
        self.controller.look()
        for node in self.nodes.values():  # an image that was lost comes again
            if node.alive and not self.is_cut(node.id) and node.image is not self.controller.now:
                self._publish(node, self.controller.now)
        self.after(50_000, self.look)

    # Faults

    def hurt(self) -> None:
        if self.now_ms > CALM_MS or not self.kinds:
            return
        kind = self.chance.choice(self.kinds)
        self.tally[kind] += 1
        getattr(self, f"_{kind}")(self.nodes[self.chance.choice(IDS)])
        self.after(self.chance.randint(50_000, 900_000), self.hurt)

    def _crash(self, node: Node) -> None:
        node.crash()
        self.after(self.chance.randint(20_000, 900_000), lambda: self._restart(node, clean=True))

    def _restart(self, node: Node, *, clean: bool) -> None:
        if not node.alive:
            node.start(clean=clean and node.id not in self.lossy)

    def _lossy(self, node: Node) -> None:
        are_back = all(self.nodes[each].alive for each in self.lossy)
        if set(self.controller.now.isr) == set(IDS) and are_back:
            self.lossy = {node.id}
            node.crash()
            node.lose(self.chance.randint(1, 6))
            self.after(self.chance.randint(1_000, 200_000), lambda: self._restart(node, clean=False))

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

    def _late(self, _node: Node) -> None:
        self.late_us = self.chance.randint(50_000, 1_500_000)
        self.after(self.chance.randint(500_000, 2_000_000), lambda: setattr(self, "late_us", 0))

    # Running

    def run(self, until_ms: int) -> None:
        while self.events and self.events[0][0] <= until_ms * 1000:
            self.now_us, number, call = heapq.heappop(self.events)
            call()
            self._check_in_sync()
            self.digest.update(f"{self.now_us} {number} {self.oracle.end_offset}".encode())

    def _check_in_sync(self) -> None:
        """Who may be elected has it all. Of a disk that has lost something the controller learns when it registers."""
        for broker_id in {*self.controller.now.isr, *self.controller.now.elr}:
            node = self.nodes[broker_id]
            if broker_id in self.lossy and not node.alive:
                continue
            known = self.tally.get(f"held {broker_id}", -1), node.medium.log(KEY).live.log_end_offset
            if known[0] == self.oracle.end_offset and known[1] >= self.oracle.end_offset:
                continue
            self.oracle.in_sync(node.name, node.durable_log())
            self.tally[f"held {broker_id}"] = self.oracle.end_offset

    def finish(self) -> None:
        """Heal everything, let it come to rest, and look at what is left."""
        self.run(CALM_MS)
        self.cut_links.clear()
        self.late_us = 0
        for node in self.nodes.values():
            node.slow_us = 0
        acknowledged = self.tally["acknowledged"]
        self.run(CALM_MS + 4_000)
        now = self.controller.now
        if self.tally["acknowledged"] == acknowledged or set(now.isr) != set(IDS):
            raise Violation(Invariant.PROGRESS, f"isr {now.isr} of leader {now.leader}")
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
    """What came of one run."""

    seed: int
    violation: Violation | None
    digest: str
    tally: Counter[str]

    def explain(self) -> str:
        return f"seed {self.seed}: {self.violation} {dict(self.tally)}\npython {__file__} {self.seed}"


def simulate(seed: int, faults: tuple[str, ...] | None = None) -> Result:
    world = World(seed, faults)
    violation = None
    try:
        world.finish()
    except Violation as broken:
        violation = broken
    return Result(seed, violation, world.digest.hexdigest()[:16], world.tally)


if __name__ == "__main__":
    told = simulate(int(sys.argv[1]))
    print(told.explain() if told.violation else told.digest)
