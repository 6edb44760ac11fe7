"""Producers start, write, commit, abort, crash and are slow in any order, and the coordinator restarts in between.

A model of two partitions accompanies the shard: it accepts a batch if its guard allows it, as `partitions` does, and a
marker when the runtime would write one. After each step the world compares the state with its replay.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from transaction_world import World

from odradek.coordinator.contract import Outcome
from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.init import LAST_EPOCH, NeedsProducerId
from odradek.coordinator.transactions.records import transaction_record
from odradek.coordinator.transactions.state import PREPARED, TransactionState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest

TIMEOUT_MS = 10_000
CONFIG = TransactionConfig(transaction_remove_expired_transaction_cleanup_interval_ms=10**9)
TOPIC = "data"
numbers, indexes, versions = st.integers(0, 2), st.integers(0, 1), st.sampled_from([0, 2])


@dataclass
class Producer:
    pid: int = -1
    epoch: int = -1
    version: int = 0
    begun: int = 0
    """The number of transactions begun; with pid and epoch it identifies the current one."""
    added: set[int] = field(default_factory=set)

    @property
    def transaction(self):
        return self.pid, self.epoch, self.begun


@dataclass
class Partition:
    """The state that `partitions` keeps: the open transaction of each producer id, its epoch, and when it began."""

    open: dict[int, tuple[int, int, object]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(CONFIG)
        self.producers = [Producer() for _ in range(3)]
        self.partitions = [Partition(), Partition()]
        self.next_pid = 100
        self.highest = {}
        self.outcomes = {}

    @initialize(
        level=st.integers(0, 2), versions=st.tuples(*[st.sampled_from([0, 2])] * 3), epochs_left=st.integers(1, 9)
    )
    def begin(self, level, versions, epochs_left):
        """Producers of either version, a cluster of any level, and few epochs per producer id."""
        self.world.level = level
        for producer, version in zip(self.producers, versions, strict=True):
            producer.version = version
        self.init(0, False)
        held = replace(self.current(), producer_epoch=LAST_EPOCH - epochs_left)
        self.world.apply(Outcome([transaction_record(held, level)]))
        self.producers[0].epoch = self.highest[held.producer_id] = held.producer_epoch

    def call(self, operation, *arguments):
        _, (reply,) = self.world.apply(operation(*arguments, self.world.token(), self.world.now_ms))
        return reply.value

    def call_with_ids(self, operation, *arguments):
        reply = self.call(operation, *arguments, None)
        if isinstance(reply, NeedsProducerId):
            self.next_pid += 1
            reply = self.call(operation, *arguments, self.next_pid)
        return reply

    def identity(self, producer):
        return ProducerIdentity("t", producer.pid, producer.epoch)

    def current(self):
        return self.world.shard.table.transactions.get("t")

    # Producers

    @rule(number=numbers, claimed=st.booleans())
    def init(self, number, claimed):
        producer = self.producers[number]
        claims = claimed and producer.pid >= 0
        request = InitProducerIdRequest(
            transactional_id="t",
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=producer.pid if claims else -1,
            producer_epoch=producer.epoch if claims else -1,
        )
        reply = self.call_with_ids(self.world.shard.init_producer_id, request)
        if not reply.error_code:
            assert reply.producer_epoch <= LAST_EPOCH, "an epoch that is kept for fencing"
            assert reply.producer_epoch >= self.highest.get(reply.producer_id, 0), "an epoch was given twice"
            assert claims or reply.producer_epoch > self.highest.get(reply.producer_id, -1), "the same epoch for two"
            self.highest[reply.producer_id] = reply.producer_epoch
            self.producers[number] = Producer(reply.producer_id, reply.producer_epoch, producer.version)

    @rule(number=numbers, index=indexes)
    def add(self, number, index):
        self.adds(self.producers[number], index)

    def adds(self, producer, index):
        before = self.current()
        partitions = {TOPIC: frozenset({index})}
        error = self.call(self.world.shard.add_partitions, self.identity(producer), partitions, producer.version)
        if error is ErrorCode.NONE:
            self.must_own(producer)
            if before.state is not TransactionState.ONGOING:
                producer.begun += 1
                producer.added = set()
            producer.added.add(index)
        return error

    @rule(number=numbers, index=indexes)
    def write(self, number, index):
        """Verifies with the coordinator, and writes if it agrees; no verification if the transaction is open here.

        For transaction version 2 the request adds the partition to the transaction.
        """
        producer, partition = self.producers[number], self.partitions[index]
        if producer.epoch < partition.epochs.get(producer.pid, -1) or producer.pid < 0:
            return
        known = partition.open.get(producer.pid)
        if known is None or known[0] != producer.epoch:
            if producer.version == 2:
                error = self.adds(producer, index)
            else:
                errors = self.world.shard.verify(self.identity(producer), {TOPIC: frozenset({index})})
                error = errors[TOPIC, index]
            if error:
                return
            self.must_own(producer)
            assert index in producer.added, "a partition that was never added"
            partition.open[producer.pid] = (producer.epoch, self.world.now_ms, producer.transaction)
        partition.epochs[producer.pid] = producer.epoch

    @rule(number=numbers, committed=st.booleans(), lost=st.booleans())
    def end(self, number, committed, lost):
        """The reply may be lost; then the producer repeats the request, or requests the opposite."""
        producer = self.producers[number]
        before = self.current()
        operation, claim = self.world.shard.end_transaction, self.identity(producer)
        ended = self.call_with_ids(operation, claim, committed, producer.version)
        if ended.error is ErrorCode.NONE:
            outcome = self.outcomes.setdefault(producer.transaction, committed)
            assert outcome is committed, "two outcomes"
            if producer.version == 2:
                self.goes_on(producer, before, ended, lost)
            else:
                self.must_own(producer)
        elif before is not None and before.state in PREPARED and ended.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            soon = ((before.producer_id, before.producer_epoch), (before.next_producer_id, 0))
            ahead = producer.version == 2 and (producer.pid, producer.epoch) in soon
            assert ahead or (before.state is TransactionState.PREPARE_COMMIT) is committed

    def goes_on(self, producer, before, ended, lost):
        """The producer gets a producer id and epoch that no other producer got; a retry gets the first answer."""
        current = self.current()
        next_one = (current.next_producer_id, 0) if current.next_producer_id >= 0 else None
        given = (ended.producer_id, ended.producer_epoch)
        assert given in (next_one, (current.producer_id, current.producer_epoch))
        assert ended.producer_epoch <= LAST_EPOCH, "an epoch that is kept for fencing"
        if (before.producer_id, before.producer_epoch) == (producer.pid, producer.epoch):
            assert ended.producer_epoch > self.highest.get(ended.producer_id, -1), "the same epoch for two"
        self.highest[ended.producer_id] = max(ended.producer_epoch, self.highest.get(ended.producer_id, 0))
        if not lost:
            producer.pid, producer.epoch = given
            producer.begun, producer.added = 0, set()

    def must_own(self, producer):
        current = self.current()
        assert (current.producer_id, current.producer_epoch) == (producer.pid, producer.epoch), "a zombie was let in"

    # The runtime and time

    @rule()
    def markers(self):
        for decided in self.world.decided:
            for index in decided.partitions.get(TOPIC, ()):
                self.mark(self.partitions[index], decided)
        for _ in self.world.finish():
            pass

    def mark(self, partition, decided):
        seen = partition.epochs.get(decided.producer_id, -1)
        begun = decided.producer_id in partition.open
        assert decided.producer_epoch >= seen + (begun and decided.version == 2), "a marker behind its producer"
        partition.epochs[decided.producer_id] = decided.producer_epoch
        ended = partition.open.pop(decided.producer_id, None)
        if ended is None:
            return
        committed = decided.state is TransactionState.PREPARE_COMMIT
        assert self.outcomes.setdefault(ended[2], committed) is committed, "the marker is not what was decided"

    @rule(duration_ms=st.sampled_from([1, 3_000, 9_999, 20_000]))
    def time_passes(self, duration_ms):
        for _ in self.world.advance(duration_ms):
            pass

    @rule()
    def restart(self):
        self.world.restart()

    # Invariants

    @invariant()
    def what_is_open_in_a_partition_is_known_to_the_coordinator(self):
        current = self.current()
        for index, partition in enumerate(self.partitions):
            for pid in partition.open:
                assert current.producer_id == pid
                assert current.holds(TOPIC, index), "a hanging transaction"

    @invariant()
    def nothing_is_open_past_its_timeout(self):
        """A transaction past its time-out is decided, and waits only for its markers."""
        current = self.current()
        for partition in self.partitions:
            for _, since_ms, _ in partition.open.values():
                late = self.world.now_ms - since_ms > TIMEOUT_MS
                assert not late or current.state in PREPARED, "a partition's last stable offset is stuck"


TransactionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestTransactionMachine = TransactionMachine.TestCase
