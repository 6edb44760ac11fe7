"""Offsets committed plainly and in transactions that end in any order, deleted, fetched, with restarts in between.

A simple model has the expected state: for each partition the commits in the order of the log, each with its open
transaction.
"""

from dataclasses import dataclass

from group_world import World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from shard_world import as_read

from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.shard import GroupShard
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP, NO_PRODUCER = "g", -1
TOPICS, PARTITIONS, PRODUCERS = ("t", "u"), (0,), (7, 8)
CONFIG = GroupConfig(offsets_retention_check_interval_ms=10**9)
NOTES = ("", "note", None)

keys = st.tuples(st.sampled_from(TOPICS), st.sampled_from(PARTITIONS))
producers = st.sampled_from(PRODUCERS)


@dataclass
class Commit:
    """One commit; `producer_id` while its transaction is open, NO_PRODUCER once it counts."""

    offset: int
    note: str
    producer_id: int


@dataclass(frozen=True)
class Marker:
    """The end marker of a transaction in the log."""

    producer_id: int
    committed: bool


class OffsetMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(CONFIG)
        self.world.check = lambda: None  # it does not replay markers; `state_is_replay` below does
        self.log = []
        self.model = {(topic, partition): [] for topic in TOPICS for partition in PARTITIONS}
        self.offset = 0

    def apply(self, operation, request):
        token = self.world.token()
        outcome = operation(request, self.world.caller(9), token, self.world.now_ms)
        records, replies = self.world.apply(outcome)
        self.log += records
        [mine] = [reply.value for reply in replies if reply.token == token]
        return mine

    # Clients

    @rule(key=keys, note=st.sampled_from(NOTES))
    def commit(self, key, note):
        self.offset += 1
        topic, partition = key
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self.offset, committed_metadata=note
        )
        topics = (OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
        self.apply(self.world.shard.offset_commit, OffsetCommitRequest(group_id=GROUP, topics=topics))
        self.model[key].append(Commit(self.offset, note or "", NO_PRODUCER))

    @rule(key=keys, producer_id=producers, note=st.sampled_from(NOTES))
    def commit_in_transaction(self, key, producer_id, note):
        self.offset += 1
        topic, partition = key
        part = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self.offset, committed_metadata=note
        )
        topics = (TxnOffsetCommitRequestTopic(name=topic, partitions=(part,)),)
        request = TxnOffsetCommitRequest(group_id=GROUP, producer_id=producer_id, topics=topics)
        self.apply(self.world.shard.txn_offset_commit, request)
        self.model[key].append(Commit(self.offset, note or "", producer_id))

    @rule(key=keys, producer_id=producers)
    def commit_beside_a_transaction(self, key, producer_id):
        """This order is rare by chance: the transaction's offset is older than the plain one by the time it counts."""
        self.commit_in_transaction(key, producer_id, None)
        self.commit(key, None)

    @rule(producer_id=producers, committed=st.booleans())
    def end_transaction(self, producer_id, committed):
        self.world.shard.replay_end(producer_id, committed, self.world.now_ms)
        self.log.append(Marker(producer_id, committed))
        for commits in self.model.values():
            if not committed:
                commits[:] = [each for each in commits if each.producer_id != producer_id]
            for each in commits:
                if each.producer_id == producer_id:
                    each.producer_id = NO_PRODUCER

    @rule(key=keys)
    def delete_offset(self, key):
        topic, partition = key
        parts = (OffsetDeleteRequestPartition(partition_index=partition),)
        topics = (OffsetDeleteRequestTopic(name=topic, partitions=parts),)
        answer = self.apply(self.world.shard.offset_delete, OffsetDeleteRequest(group_id=GROUP, topics=topics))
        known = GROUP in self.world.shard.table.classic.groups
        assert answer.error_code == (ErrorCode.NONE if known else ErrorCode.GROUP_ID_NOT_FOUND)
        self.model[key].clear()

    @rule(topic=st.sampled_from(TOPICS))
    def topic_deleted(self, topic):
        outcome = self.world.shard.on_topics_deleted([topic], self.world.now_ms)
        self.log += self.world.apply(outcome)[0]
        for key, commits in self.model.items():
            if key[0] == topic:
                commits.clear()

    @rule()
    def restart(self):
        self.world.shard = self.rebuilt()
        self.world.waiting.clear()

    # Invariants

    def rebuilt(self):
        shard = GroupShard(CONFIG)
        for offset, each in enumerate(self.log):
            if isinstance(each, Marker):
                shard.replay_end(each.producer_id, each.committed, self.world.now_ms)
            else:
                shard.replay(as_read(each), offset, 0, self.world.now_ms)
        return shard

    def fetched(self, shard, *, require_stable):
        topics = tuple(OffsetFetchRequestTopics(name=topic, partition_indexes=PARTITIONS) for topic in TOPICS)
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        [reply] = shard.offset_fetch_group(request, require_stable, self.world.token(), self.world.now_ms).replies
        return {
            (topic.name, part.partition_index): (part.committed_offset, part.metadata, part.error_code)
            for topic in reply.value.topics
            for part in topic.partitions
        }

    @invariant()
    def the_newest_commit_that_counts_is_fetched(self):
        expected = {}
        for key, commits in self.model.items():
            counted = [(each.offset, each.note, 0) for each in commits if each.producer_id == NO_PRODUCER]
            expected[key] = counted[-1] if counted else (-1, "", 0)
        assert self.fetched(self.world.shard, require_stable=False) == expected

    @invariant()
    def what_a_transaction_would_change_is_unstable(self):
        answers = self.fetched(self.world.shard, require_stable=True)
        for key, commits in self.model.items():
            is_open = any(each.producer_id != NO_PRODUCER for each in commits)
            assert (answers[key][2] == ErrorCode.UNSTABLE_OFFSET_COMMIT) == is_open

    @invariant()
    def state_is_replay(self):
        rebuilt = self.rebuilt()
        for require_stable in (False, True):
            assert self.fetched(rebuilt, require_stable=require_stable) == self.fetched(
                self.world.shard, require_stable=require_stable
            )


OffsetMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestOffsetMachine = OffsetMachine.TestCase
