"""Members of a consumer group join, heartbeat at odd times, lose answers, crash, leave and commit; topics come and go.

After each step the world compares the state with its replay. The rules here check what clients rely on: a partition has
at most one owner, epochs never decrease, a stale epoch commits nothing, and all partitions are assigned once all
members send heartbeats.
"""

from dataclasses import dataclass, field
from uuid import UUID

from consumer_script import topics_image
from group_world import World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.coordinator.groups.config import GroupConfig
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

GROUP = "g"
REBALANCE_MS, SESSION_MS = 20_000, 45_000
CONFIG = GroupConfig(offsets_retention_check_interval_ms=10**9)
Partition = tuple[UUID, int]


@dataclass
class Consumer:
    """A client that reads new partitions at once, and gives up revoked ones with its next heartbeat or later.

    As Kafka's client it sends a full heartbeat after one whose answer was lost, since that may have had an assignment.
    """

    number: int
    instance: str | None
    member_id: str = ""
    lives: int = 0
    epoch: int = 0
    topics: tuple[str, ...] = ("t",)
    regex: str | None = None
    owned: set[Partition] = field(default_factory=set)
    granted: set[Partition] = field(default_factory=set)
    answered_ms: int = 0
    lacks_answer: bool = False

    @property
    def alive(self):
        return self.epoch > 0

    def restart(self):
        self.lives += 1
        self.member_id, self.epoch = f"m{self.number}-{self.lives}", 0
        self.owned, self.granted = set(), set()
        self.lacks_answer = False


consumers = st.integers(0, 3)
subscriptions = st.sampled_from([("t",), ("t", "u"), ("u",), ("v",)])


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(CONFIG)
        self.world.now_ms = 1_000
        self.world.image = topics_image(self.world.image, {"t": 4, "u": 2})
        self.consumers = [Consumer(number, "i3" if number == 3 else None) for number in range(4)]
        for consumer in self.consumers:
            consumer.restart()
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    # Requests and replies

    def send(self, consumer, epoch, *, full=False, tells=True, lost=False):
        full = full or consumer.lacks_answer
        consumer.lacks_answer = lost
        topics: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(consumer.owned):
            topics.setdefault(topic_id, []).append(index)
        owned = tuple(TopicPartitions(topic_id=t, partitions=tuple(parts)) for t, parts in topics.items())
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=consumer.member_id,
            member_epoch=epoch,
            instance_id=consumer.instance,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=consumer.topics if full else None,
            subscribed_topic_regex=consumer.regex or "" if full else None,
            topic_partitions=owned if tells or full else None,
        )
        token = self.world.token()
        caller = self.world.caller(1, consumer.member_id)
        outcome = self.world.shard.consumer_group_heartbeat(request, caller, token, self.world.now_ms)
        ((reply),) = self.world.apply(outcome)[1]
        if not reply.value.error_code:
            consumer.answered_ms = self.world.now_ms
        if not lost:
            self.receive(consumer, reply.value)
        return reply.value

    def receive(self, consumer, answer):
        if answer.error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}:
            consumer.epoch, consumer.owned, consumer.granted = 0, set(), set()
        elif answer.error_code in {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND}:
            consumer.restart()
        elif answer.error_code:
            assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID, answer
        else:
            consumer.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = {(t.topic_id, index) for t in answer.assignment.topic_partitions for index in t.partitions}
                consumer.granted = assigned

    # Members

    @rule(number=consumers, topics=subscriptions, regex=st.sampled_from([None, None, "[tv]", "u|x"]))
    def join(self, number, topics, regex):
        consumer = self.consumers[number]
        if consumer.alive:
            return
        consumer.topics, consumer.regex = topics, regex
        self.send(consumer, 0, full=True)
        self.take(number)

    @rule(number=consumers, tells=st.booleans(), lost=st.booleans())
    def beat(self, number, tells, lost):
        consumer = self.consumers[number]
        if consumer.alive:
            self.send(consumer, consumer.epoch, tells=tells, lost=lost)

    @rule(number=consumers)
    def ask_for_everything(self, number):
        """A full heartbeat, as after an error: the answer has the whole assignment."""
        consumer = self.consumers[number]
        if consumer.alive:
            self.send(consumer, consumer.epoch, full=True)

    @rule(number=consumers)
    def take(self, number):
        """Starts to read the assigned partitions."""
        consumer = self.consumers[number]
        consumer.owned |= consumer.granted

    @rule(number=consumers)
    def give_up(self, number):
        """Stops reading partitions that are no longer assigned."""
        consumer = self.consumers[number]
        consumer.owned &= consumer.granted

    @rule(gives_up=st.booleans(), times=st.integers(1, 3))
    def everybody_beats(self, gives_up, times):
        """All send heartbeats after a while and read new partitions at once, but may keep revoked ones for longer."""
        list(self.world.advance(1_500))
        for consumer in self.consumers * times:
            if consumer.alive:
                consumer.owned &= consumer.granted if gives_up else consumer.owned
                self.send(consumer, consumer.epoch)
                consumer.owned |= consumer.granted

    @rule(number=consumers, topics=subscriptions)
    def resubscribe(self, number, topics):
        consumer = self.consumers[number]
        if consumer.alive:
            consumer.topics = topics
            self.send(consumer, consumer.epoch, full=True)

    @rule(number=consumers, for_a_while=st.booleans())
    def leave(self, number, for_a_while):
        consumer = self.consumers[number]
        if consumer.alive:
            static = consumer.instance is not None and for_a_while
            consumer.owned = set()
            self.send(consumer, -2 if static else -1, lost=True)
            consumer.restart()

    @rule(number=consumers)
    def crash(self, number):
        self.consumers[number].restart()

    @rule(number=consumers, behind=st.integers(-1, 2), index=st.integers(0, 3))
    def commit(self, number, behind, index):
        consumer = self.consumers[number]
        topic = self.world.image.topic("t")
        if topic is None:
            return
        epoch = consumer.epoch - behind
        row = OffsetCommitRequestPartition(partition_index=index, committed_offset=self.world.now_ms)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            topics=(OffsetCommitRequestTopic(name="t", topic_id=topic.topic_id, partitions=(row,)),),
        )
        group = self.group()
        member = None if group is None else group.members.get(consumer.member_id)
        caller = self.world.caller(9)
        outcome = self.world.shard.offset_commit(request, caller, self.world.token(), self.world.now_ms)
        ((reply),) = self.world.apply(outcome)[1]
        error = reply.value.topics[0].partitions[0].error_code
        since = None if member is None else member.assignment_epoch(topic.topic_id, index)
        if not error:
            is_empty = group is None or not group.members
            current = member is not None and epoch == member.epoch
            held_since = since is not None and since <= epoch < member.epoch
            assert current or held_since or (is_empty and epoch < 0), "a stale epoch has committed"

    # Time and the coordinator

    @rule(duration_ms=st.sampled_from([1, 500, 1_500, 9_000, 15_000, 46_000]))
    def time_passes(self, duration_ms):
        list(self.world.advance(duration_ms))

    @rule(counts=st.sampled_from([{"t": 4, "u": 2}, {"t": 5, "u": 2}, {"t": 4}, {"t": 4, "u": 1, "v": 1}]))
    def topics_change(self, counts):
        known = {name: len(topic.partitions) for name, topic in self.world.image.topics_by_name.items()}
        grown = {name: max(count, known.get(name, 0)) for name, count in counts.items()}
        self.world.image = topics_image(self.world.image, grown)

    @rule()
    def restart(self):
        if self.world.log:
            assert not self.world.restart()[1]

    @rule()
    def all_goes_well(self):
        """Running members send heartbeats until the group is stable; then every subscribed partition has an owner."""
        quiet = 0
        while quiet < 14:  # rounds since a member joined, or a crashed one was removed
            before = self.member_ids()
            list(self.world.advance(1_500))
            for consumer in self.consumers:
                if consumer.alive:
                    consumer.owned = set(consumer.granted)
                    self.send(consumer, consumer.epoch)
            quiet = quiet + 1 if self.member_ids() == before else 0
        group = self.group()
        waiting = {c.member_id for c in self.consumers if c.alive} ^ self.member_ids()
        if group is not None and not waiting:
            wanted = {
                (topic.topic_id, index)
                for name in group.subscribed_topics()
                if (topic := self.world.image.topic(name)) is not None
                for index in range(len(topic.partitions))
            }
            assert set(group.owners) == wanted, "not everything is assigned"
            assert {partition for c in self.consumers for partition in c.granted} == wanted

    # Invariants

    def group(self):
        return self.world.shard.table.consumer.groups.get(GROUP)

    def member_ids(self):
        group = self.group()
        return set(group.members) if group is not None else set()

    @invariant()
    def a_partition_has_one_owner(self):
        group = self.group()
        if group is None:
            return
        held = [
            (topic_id, index)
            for member in group.members.values()
            for side in (member.assigned, member.revoking)
            for topic_id, indexes in side.items()
            for index in indexes
        ]
        assert len(held) == len(set(held)), "two members hold a partition"
        assert set(held) == set(group.owners)

    @invariant()
    def no_two_clients_read_a_partition(self):
        """Only current members count: removed ones have yet to receive the error."""
        group = self.group()
        members = {} if group is None else group.members
        reading = [partition for c in self.consumers if c.alive and c.member_id in members for partition in c.owned]
        assert len(reading) == len(set(reading)), "two members read a partition"

    @invariant()
    def epochs_never_go_back(self):
        group = self.group()
        if group is None:
            return
        assert group.epoch >= self.group_epoch
        assert group.target_epoch <= group.epoch
        self.group_epoch = group.epoch
        for member_id, member in group.members.items():
            if member.epoch > 0:
                assert member.epoch >= self.epochs.get(member_id, 0)
                assert member.epoch <= group.epoch
                self.epochs[member_id] = member.epoch


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
