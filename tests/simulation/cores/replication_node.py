"""One broker of the replication simulation: production leader, follower and truncation over a memory store."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from replication_controller import IDS, MIN_INSYNC, Image
from replication_disks import Batch, DiskReader, Held
from replication_invariants import Invariant, Violation

if TYPE_CHECKING:
    from replication_world import World

from odradek.gateway.replication import following
from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.config import LogConfig
from odradek.partitions.follower import FetchPosition, Follower, Restart
from odradek.partitions.in_sync import BrokerStanding, IsrDecision, IsrProposal, Membership
from odradek.partitions.leader import FollowerFetch, Leader
from odradek.partitions.model import LogWrite, PartitionKey
from odradek.partitions.results import Appended, AppendOrigin, Duplicate, EpochEnd, FetchPlan, Rejected
from odradek.partitions.state import PartitionState
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch

KEY: Final = PartitionKey("t", UUID(int=1), 0)
LAG_MS: Final = 300
CONFIG: Final = LogConfig(min_insync_replicas=MIN_INSYNC, replica_lag_time_max_ms=LAG_MS, segment_bytes=600)


class Node:
    """One broker: a disk that survives, and a process that does not."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.name = f"node {node_id}"
        self.medium = MemoryMedium()
        self.reader = DiskReader(self.medium.log(KEY))
        self.held = Held(self.medium.log(KEY))
        self.alive = False
        self.incarnation = 0
        self.epoch = node_id
        self.image = world.controller.now
        self.image_at_us = 0
        self.slow_us = 0
        self.failure = 0.0

    # Life cycle

    def start(self, *, clean: bool, first: bool = False) -> None:
        self.incarnation += 1
        self.world.changes += 1
        self.alive, self.rewriting, self.failed = True, False, False
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
        self.incarnation += 1
        self.world.changes += 1
        self.medium.in_use = False

    def lose(self, batches: int) -> None:
        """The disk loses its newest batches, and has the state before them."""
        kept, log = self.reader.read()[:-batches], self.medium.log(KEY)
        end_offset = kept[-1][1] if kept else 0
        left = kept if end_offset >= log.live.log_start_offset else []
        log.truncate(end_offset, self.world.oracle.rebuilds.rows(left))
        self.disk_was_cut()

    def disk_was_cut(self) -> None:
        self.world.changes += 1
        self.held.was_cut()

    def later(self, delay_us: int, call: Callable[[], None]) -> None:
        self.world.after_of(self, delay_us, call)

    def beat(self) -> None:
        self.world.send(self.id, 0, partial(self.world.controller.heartbeat, self.id, self.epoch))
        self.later(50_000, self.beat)

    # Roles

    def publish(self, image: Image) -> None:
        if self.alive and image is not self.image:
            self.image = image
            self.take_role()

    def standing(self, broker_id: int) -> BrokerStanding | None:
        return self.image.brokers.get(broker_id)

    def take_role(self, *, again: bool = False, before: Leader | Follower | None = None) -> None:
        image = self.image
        if self.rewriting:
            return
        if self.role is not None and image.leader_epoch == self.state.leader_epoch and not again:
            if isinstance(self.role, Leader):
                self.role.assign(Membership(self.id, IDS, image.isr, image.partition_epoch))
                if not self.failed:
                    self.role.advance_at(self.world.now_ms)
                    self.moved()
            return
        if self.failed or image.leader_epoch < self.state.leader_epoch:
            return
        membership = Membership(self.id, IDS, image.isr, image.partition_epoch)
        assigned = Assignment(image.leader_epoch, image.leader, image.leader == self.id, membership)
        self.role, write = assigned.role_over(self.state, self.standing, self.world.now_ms, before)
        if isinstance(self.role, Leader):
            if not isinstance(before, Leader) or before.state.leader_epoch != image.leader_epoch:
                self.world.oracle.leads(self.name, image.leader_epoch, self.durable)
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
        self.later(self.sync_us(), partial(self.committed, taken))

    def sync_us(self) -> int:
        return self.world.chance.randint(100, 3_000) + (
            self.world.chance.randint(0, self.slow_us) if self.slow_us else 0
        )

    def committed(self, taken: list[tuple[LogWrite, int]]) -> None:
        if self.failure and self.world.chance.random() < self.failure:
            self.commit_failed([write for write, _ in taken])
            return
        self.part.commit([write for write, _ in taken], sync=True)
        for write, _ in taken:
            for batch in write.batches:
                self.durable.append((batch.base_offset, batch.last_offset + 1, bytes(batch.data)))
                self.became_durable(self.durable[-1])
        if self.role is not None:
            self.role.durable(taken[-1][1])
        self.moved()
        self.committing = False
        if self.queue:
            self.commit()

    def became_durable(self, batch: Batch) -> None:
        base_offset, _, data = batch
        self.world.oracle.durable(self.name, base_offset, int.from_bytes(data[12:16], "big"), data)

    def commit_failed(self, writes: list[LogWrite]) -> None:
        """Nothing is written any more until the log is opened again; what failed may nevertheless be on the disk."""
        self.world.tally["commits failed"] += 1
        if self.world.chance.random() < 0.3:
            self.part.commit(writes, sync=True)
        self.queue, self.committing, self.failed = [], False, True
        self.fail_waits(ErrorCode.KAFKA_STORAGE_ERROR)
        self.later(self.world.chance.randint(1_000, 50_000), self.open_again)

    def open_again(self) -> None:
        before, self.failed = self.state, False
        self.state = PartitionState.restore(self.part.load(), CONFIG)
        self.state.await_first_batch_retry(before.producers)
        self.state.raise_high_watermark(before.high_watermark)
        known = self.durable[-1][1] if self.durable else 0
        self.world.changes += 1
        self.world.tally["leading logs opened again" if isinstance(self.role, Leader) else "logs opened again"] += 1
        self.look_at_disk()
        for batch in self.durable:
            if batch[0] >= known:
                self.became_durable(batch)
        self.check_producers()
        self.take_role(again=True, before=self.role)
        self.moved()

    def moved(self) -> None:
        """Called when the high watermark may have changed."""
        high_watermark = self.state.high_watermark
        if high_watermark != self.reported:
            oracle, epoch = self.world.oracle, self.state.leader_epoch
            self.checked = oracle.commits(self.name, epoch, high_watermark, self.durable, self.checked)
            self.reported = high_watermark
        if not self.waiting:
            return
        done = [each for each in self.waiting if each[0] <= high_watermark]
        self.waiting = [each for each in self.waiting if each[0] > high_watermark]
        for _, reply in done:
            reply(ErrorCode.NONE)

    def fail_waits(self, error: ErrorCode) -> None:
        waiting, self.waiting = self.waiting, []
        for _, reply in waiting:
            reply(error)

    def look_at_disk(self) -> None:
        self.durable = self.reader.read()
        self.checked, self.reported = 0, -1

    def check_producers(self) -> None:
        if not self.world.oracle.rebuilds.agree(self.durable, self.state.producers):
            raise Violation(Invariant.PRODUCERS_KNOWN, f"{self.name} at {self.state.log_end_offset}")

    # Leading

    def produce(self, data: bytes, acks: int, reply: Callable[[ErrorCode], None]) -> None:
        role = self.role
        if self.failed:
            reply(ErrorCode.KAFKA_STORAGE_ERROR)
            return
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
        """True if the producer's sequence is ahead of this log; a late message of it may be far behind."""
        header = next(iter_headers(memoryview(data)))
        entry = self.state.producers.get(header.producer_id)
        return entry is not None and header.base_sequence > entry.last_sequence + 1

    def answer_fetch(
        self, follower: FollowerFetch, position: FetchPosition, reply: Callable[[FetchPlan | Rejected, bytes], None]
    ) -> None:
        role = self.role
        if self.rewriting or self.failed or not isinstance(role, Leader):
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
            self.propose(proposal)
        data = b""
        if plan.diverging is None and not plan.is_empty:
            data = b"".join(self.part.read(plan.start, plan.end, plan.max_bytes).chunks)
        reply(plan._replace(high_watermark=self.state.high_watermark), data)

    def answer_offsets(self, epoch: int, reply: Callable[[int, int], None]) -> None:
        """The log start and the log end, as ListOffsets."""
        is_open = not self.rewriting and not self.failed
        if is_open and isinstance(self.role, Leader) and self.state.leader_epoch == epoch:
            reply(self.state.log_start_offset, self.state.durable_end_offset)

    def delete_records(self) -> None:
        """Move the log start, often into a batch. The last batches of each producer stay, since it may repeat them."""
        entries = self.state.producers
        if self.rewriting or self.failed or not isinstance(self.role, Leader) or not {1, 2} <= entries.keys():
            return
        first_kept = min(entry.batches[0].base_offset for entry in entries.values())
        highest = min(first_kept, self.state.high_watermark)
        if highest <= self.state.log_start_offset:
            return
        offset = self.world.chance.randint(self.state.log_start_offset + 1, highest)
        write = self.state.move_log_start(offset)
        assert isinstance(write, LogWrite)
        self.world.tally["deletions"] += 1
        self.world.tally["deletions inside a batch"] += all(offset != base for base, _, _ in self.durable)
        self.world.oracle.deleted = max(self.world.oracle.deleted, offset)
        self.submit(write, self.state.log_end_offset)

    def watch_lag(self) -> None:
        role = self.role
        if isinstance(role, Leader) and not self.rewriting and not self.failed:
            role.advance_at(self.world.now_ms)
            self.moved()
            proposal = role.shrinking(self.world.now_ms)
            if proposal is not None:
                self.propose(proposal)
        self.later(LAG_MS * 500, self.watch_lag)

    def propose(self, proposal: IsrProposal) -> None:
        """Send it until it is answered; requests and answers may be lost, or late.

        Before a request is repeated the connection is reset: the earlier one does not arrive any more, nor is its
        answer received. Otherwise a refused proposal could be accepted afterwards, from the copy that was late.
        """
        sent = 0

        def ask(number: int) -> None:
            if number == sent:
                answer = self.world.controller.alter_partition(self.id, proposal)
                self.world.send(0, self.id, lambda: alive(lambda: answered(number, answer)))

        def alive(call: Callable[[], None], incarnation: int = self.incarnation) -> None:
            if self.incarnation == incarnation:
                call()

        def leading() -> Leader | None:
            """The role that the proposal is of, also over a log that was opened again."""
            role = self.role
            return role if isinstance(role, Leader) and role.in_sync.proposal is proposal else None

        def answered(number: int, answer: IsrDecision | ErrorCode) -> None:
            if (role := leading()) is not None and number == sent:
                self.world.tally["proposals answered"] += 1
                role.answered(proposal, answer)
                self.moved()

        def again() -> None:
            nonlocal sent
            if leading() is not None:
                sent += 1
                self.world.send(self.id, 0, partial(ask, sent))
                self.later(200_000, again)

        again()

    # Following

    def fetch(self) -> None:
        """Continues to fetch, one request at a time, once everything fetched is durable."""
        role = self.role
        self.later(self.world.chance.randint(2_000, 15_000), self.fetch)
        if self.rewriting or self.failed or not isinstance(role, Follower) or not role.may_fetch:
            return
        if role.leader_id < 0 or self.fetching > self.world.now_us:
            return
        self.fetching = self.world.now_us + 100_000
        position, follower = role.position, FollowerFetch(self.id, self.epoch, self.state.log_start_offset)
        leader, incarnation = self.world.nodes[role.leader_id], self.incarnation

        def reply(plan: FetchPlan | Rejected, data: bytes) -> None:
            self.world.send(leader.id, self.id, partial(self.fetched, incarnation, position, plan, data))

        self.world.send(
            self.id, leader.id, lambda: leader.answer_fetch(follower, position, reply) if leader.alive else None
        )

    def fetched(self, incarnation: int, position: FetchPosition, plan: FetchPlan | Rejected, data: bytes) -> None:
        if self.incarnation != incarnation:
            return
        self.fetching = 0
        role = self.role
        if self.rewriting or self.failed or not isinstance(role, Follower) or role.position != position:
            return
        if isinstance(plan, Rejected):
            if plan.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.ask_offsets(role, position)
            return
        if plan.diverging is not None:
            self.truncate(role, plan.diverging)
            return
        result = role.append(memoryview(data))
        if isinstance(result, Rejected):
            restart = role.restart_with(memoryview(data))
            if restart is None:
                assert result.error is ErrorCode.OFFSET_OUT_OF_RANGE, result
                self.ask_offsets(role, position)
                return
            self.rewriting = True
            self.later(self.sync_us(), partial(self.restart_with, restart, position, plan))
            return
        if result.write.batches:
            self.submit(result.write, self.state.log_end_offset)
        self.leader_reports(role, plan)

    def leader_reports(self, role: Follower, plan: FetchPlan) -> None:
        role.leader_commits(plan.high_watermark)
        self.moved()
        write = role.leader_starts(plan.log_start_offset)
        if write is not None:
            self.submit(write, self.state.log_end_offset)

    def ask_offsets(self, role: Follower, position: FetchPosition) -> None:
        """The fetch was outside of the leader's log: ask where that begins and ends."""
        leader, incarnation = self.world.nodes[role.leader_id], self.incarnation

        def reply(start: int, end: int) -> None:
            self.world.send(leader.id, self.id, partial(self.reset_offset, incarnation, position, start, end))

        self.world.send(
            self.id,
            leader.id,
            lambda: leader.answer_offsets(position.leader_epoch, reply) if leader.alive else None,
        )

    def reset_offset(self, incarnation: int, position: FetchPosition, start: int, end: int) -> None:
        role = self.role
        if self.incarnation != incarnation or self.rewriting or self.failed:
            return
        if not isinstance(role, Follower) or role.position != position:
            return
        anew = role.reset_offset(start)
        if anew is not None:
            self.rewriting = True
            self.world.tally["restarts"] += 1
            self.later(self.sync_us(), partial(self.restart_at, anew))
        elif end < position.offset:
            self.truncate(role, EpochEnd(-1, end))

    def restart_at(self, offset: int) -> None:
        following.restart_empty(self.part, offset)
        self.was_rewritten()

    def restart_with(self, restart: Restart, position: FetchPosition, plan: FetchPlan) -> None:
        if self.world.chance.random() < 0.3:  # its process ends between the two steps
            self.part.truncate(restart.base_offset)
            self.crash()
            self.held.forget()
            self.world.after(50_000, partial(self.world.restart, self, clean=True))
            return
        self.world.tally["restarts inside a batch"] += 1
        following.restart_with(self.part, restart)
        self.was_rewritten()
        for batch in self.durable:
            self.became_durable(batch)
        role = self.role
        if isinstance(role, Follower) and self.state.leader_epoch == position.leader_epoch:
            self.leader_reports(role, plan)

    def was_rewritten(self) -> None:
        assert not self.queue
        self.state.truncated(self.part.load())
        self.world.changes += 1
        self.held.forget()
        self.look_at_disk()
        self.check_producers()
        self.rewriting = False
        self.take_role(again=True)

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
        self.disk_was_cut()
        self.look_at_disk()
        self.check_producers()
        self.rewriting = False
        self.take_role(again=True)


class Producer:
    """Writes numbered records, one batch after the other; an idempotent one sends each until it is acknowledged."""

    def __init__(self, world: "World", producer_id: int, acks: int) -> None:
        self.world = world
        self.id = producer_id
        self.acks = acks
        self.sequence = 0
        self.count = 1
        self.attempt = 0
        self.is_done = False

    def send(self) -> None:
        if self.is_done:
            return
        self.attempt += 1
        attempt = self.attempt
        values = [f"{self.id}/{self.sequence + number}".encode() for number in range(self.count)]
        fields = (
            {"producer_id": self.id, "producer_epoch": 0, "base_sequence": self.sequence} if self.acks == -1 else {}
        )
        data = build_batch([SimpleRecord(b"k", value, self.world.now_ms) for value in values], **fields)
        leader = self.world.controller.now.leader if self.world.chance.random() < 0.8 else self.world.chance.choice(IDS)
        node = self.world.nodes.get(leader)

        def reply(error: ErrorCode) -> None:
            self.world.send(leader, -1, lambda: self.answered(attempt, values, error))

        if node is not None:
            self.world.send(-1, leader, lambda: node.produce(data, self.acks, reply) if node.alive else None)
        self.world.after(400_000, lambda: self.send() if attempt == self.attempt else None)

    def answered(self, attempt: int, values: list[bytes], error: ErrorCode) -> None:
        if attempt != self.attempt:
            return
        if error is ErrorCode.NONE:
            if self.acks == -1:
                for value in values:
                    self.world.oracle.acknowledged[value] = self.world.now_ms
                self.world.tally["acknowledged"] += 1
            self.sequence += self.count
            if self.world.deletes:
                self.count = self.world.chance.randint(1, 6)
        self.attempt += 1
        self.world.after(self.world.chance.randint(1_000, 20_000), self.send)
