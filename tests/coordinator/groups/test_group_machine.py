"""Many consumers join, leave, crash, heartbeat and commit in any order, and the coordinator restarts in between.

After each step the world compares the state with its replay; the rules here check what Kafka's clients rely on.
"""

from collections import Counter
from dataclasses import dataclass, field

from group_script import subscription
from group_world import World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.coordinator.groups.classic.records import decode_classic_key, decode_group
from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.config import GroupConfig
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 20_000
PARTITIONS = range(4)
BUSY = {GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE}
CONFIG = GroupConfig(offsets_retention_check_interval_ms=10**9)


@dataclass
class Consumer:
    """One consumer. `excused` when the coordinator may have removed it because it was silent or slow for too long."""

    number: int
    version: int
    instance: str | None
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    lead: list[str] = field(default_factory=list)
    synced: bool = False
    token: int | None = None
    asked: str = ""
    answered_ms: int = 0
    excused: bool = False
    forgotten: bool = False
    """Its id was not written when the coordinator ended; as in Kafka, the previous member has the instance again."""

    def forget_all(self):
        self.member_id, self.generation, self.lead, self.synced = "", -1, [], False
        self.token, self.asked, self.excused, self.forgotten = None, "", False, False


consumers = st.integers(0, 4)


class GroupMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(CONFIG)
        statics = {1: "i1", 3: "i3"}
        self.consumers = [Consumer(n, 9 if n % 2 else 3, statics.get(n)) for n in range(4)] + [Consumer(4, 5, None)]
        self.life = 0
        """Incremented when generations may restart: at a restart of the coordinator, and when the group is deleted."""
        self.highest = (0, 0)
        self.leaders = {}
        self.owners = {}
        self.uuids = 0

    # Requests and replies

    def send(self, consumer, operation, request, asked=""):
        token = self.world.token()
        consumer.token, consumer.asked = token, asked
        self.uuids += 1
        caller = self.world.caller(consumer.version, f"c{consumer.number}", str(self.uuids))
        replies = self.world.apply(operation(request, caller, token, self.world.now_ms))[1]
        mine = next((reply.value for reply in replies if reply.token == token), None)
        self.deliver(replies)
        return mine

    def deliver(self, replies):
        for reply in replies:
            for consumer in self.consumers:
                if consumer.token == reply.token:
                    consumer.token = None
                    self.receive(consumer, reply.value)

    def receive(self, consumer, value):
        if isinstance(value, JoinGroupResponse | HeartbeatResponse):
            consumer.answered_ms = self.world.now_ms
        if isinstance(value, JoinGroupResponse):
            self.receive_join(consumer, value)
        elif isinstance(value, SyncGroupResponse):
            self.receive_sync(consumer, value)
        else:
            self.receive_error(consumer, getattr(value, "error_code", 0))

    def receive_join(self, consumer, value):
        if value.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            consumer.member_id, consumer.excused = value.member_id, False
        elif value.error_code:
            self.receive_error(consumer, value.error_code)
        else:
            consumer.member_id, consumer.generation = value.member_id, value.generation_id
            consumer.protocol, consumer.synced, consumer.excused = value.protocol_name, False, False
            consumer.forgotten = False
            consumer.lead = [m.member_id for m in value.members if not value.skip_assignment]
            if consumer.lead:
                leader = self.leaders.setdefault((self.life, value.generation_id), value.member_id)
                assert leader == value.member_id, "two leaders in one generation"

    def receive_sync(self, consumer, value):
        if value.error_code:
            self.receive_error(consumer, value.error_code)
            return
        consumer.synced, consumer.answered_ms = True, self.world.now_ms
        owners = self.owners.setdefault((self.life, consumer.generation), {})
        for partition in bytes(value.assignment):
            owner = owners.setdefault(partition, consumer.number)
            assert owner == consumer.number, "a partition has two owners in one generation"

    def receive_error(self, consumer, error):
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            assert consumer.excused, "a live member was given up"
        if error == ErrorCode.FENCED_INSTANCE_ID:
            assert consumer.forgotten, "every instance has one process here"
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}:
            consumer.forget_all()

    # Consumers

    @rule(number=consumers, topics=st.sampled_from([["t"], ["t"], ["t", "u"]]))
    def join(self, number, topics):
        consumer = self.consumers[number]
        if consumer.token is not None:
            return
        metadata = subscription(topics)
        protocols = ["range", "sticky"] if number % 2 else ["sticky", "range", f"only{number}"]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            protocol_type="consumer",
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols),
        )
        self.send(consumer, self.world.shard.join_group, request, "join")

    @rule(number=consumers)
    def sync(self, number):
        consumer = self.consumers[number]
        if consumer.token is not None or consumer.generation < 0:
            return
        given = dict.fromkeys(consumer.lead, b"")
        for partition in PARTITIONS if given else ():
            given[consumer.lead[partition % len(given)]] += bytes([partition])
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            protocol_type="consumer",
            protocol_name=consumer.protocol,
            assignments=tuple(SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in given.items()),
        )
        self.send(consumer, self.world.shard.sync_group, request, "sync")

    @rule(number=consumers)
    def heartbeat(self, number):
        consumer = self.consumers[number]
        if consumer.token is not None or consumer.generation < 0:
            return
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
        )
        consumer.asked = ""
        answer = self.world.shard.heartbeat(request, self.world.now_ms)
        self.world.check()
        self.receive(consumer, answer)

    @rule(number=consumers, partition=st.sampled_from(list(PARTITIONS)), behind=st.integers(0, 2))
    def commit(self, number, partition, behind):
        consumer = self.consumers[number]
        if consumer.token is not None or consumer.generation < 0:
            return
        group = self.group()
        current = group is not None and group.generation == consumer.generation - behind
        member = group is not None and consumer.member_id in group.members
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.world.now_ms)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=consumer.generation - behind,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            topics=(OffsetCommitRequestTopic(name="t", partitions=(row,)),),
        )
        value = self.send(consumer, self.world.shard.offset_commit, request)
        error = value.topics[0].partitions[0].error_code
        stored = self.world.shard.table.offsets.store.get(GROUP, "t", partition)
        if error == ErrorCode.NONE:
            assert current or consumer.generation - behind < 0, "a stale generation has committed"
            assert group is None or member or not group.members, "a client that is no member has committed"
            assert stored is not None
            assert stored.offset == self.world.now_ms

    @rule(number=consumers)
    def leave(self, number):
        consumer = self.consumers[number]
        if not consumer.member_id or consumer.instance is not None:
            return
        identity = MemberIdentity(member_id=consumer.member_id)
        consumer.excused = True
        consumer.forget_all()
        request = LeaveGroupRequest(group_id=GROUP, members=(identity,))
        caller = self.world.caller(5)
        outcome = self.world.shard.leave_group(request, caller, self.world.token(), self.world.now_ms)
        self.deliver(self.world.apply(outcome)[1])

    @rule(number=consumers)
    def crash(self, number):
        """The process ends, and starts again with its next join; the answer that it was waiting for is lost."""
        self.consumers[number].forget_all()

    # Time and the coordinator

    @rule(duration_ms=st.sampled_from([1, 500, 3_000, 6_000, 9_999, 12_000]))
    def time_passes(self, duration_ms):
        group = self.group()
        busy_since = group.state_since_ms if group is not None and group.state in BUSY else None
        end_ms = self.world.now_ms + duration_ms
        for consumer in self.consumers:
            slow = busy_since is not None and end_ms - busy_since >= REBALANCE_MS
            consumer.excused |= consumer.token is None and (slow or end_ms - consumer.answered_ms >= SESSION_MS)
        for _, replies in self.world.advance(duration_ms):
            self.deliver(replies)
        for consumer in self.consumers:  # some were answered during the advance and have been silent since
            consumer.excused |= consumer.token is None and end_ms - consumer.answered_ms >= SESSION_MS

    @precondition(lambda self: self.world.log)
    @rule()
    def restart(self):
        """All unwritten state is lost, including members that were not written."""
        replies = self.world.restart()[1]
        assert not replies
        self.life += 1
        group = self.group()
        for consumer in self.consumers:
            consumer.token = None
            consumer.answered_ms = self.world.now_ms
            consumer.forgotten = group is None or consumer.member_id not in group.members
            consumer.excused |= consumer.forgotten

    @rule()
    def delete(self):
        """An administrator deletes the group, which works only when it has no members."""
        group = self.group()
        may_go = group is not None and group.state is GroupState.EMPTY
        token = self.world.token()
        outcome = self.world.shard.delete_group(GROUP, self.world.caller(2), token, self.world.now_ms)
        replies = self.world.apply(outcome)[1]
        [mine] = [reply.value for reply in replies if reply.token == token]
        assert (mine.error_code == ErrorCode.NONE) == may_go
        if may_go:
            assert self.group() is None
            self.life += 1
            for consumer in self.consumers:
                consumer.excused = True

    # Invariants

    def group(self):
        return self.world.shard.table.classic.groups.get(GROUP)

    @invariant()
    def generations_only_grow(self):
        """The live generation never decreases until a restart, the written one until the group is deleted."""
        group = self.group()
        generation = 0 if group is None else group.generation
        assert (self.life, generation) >= self.highest or group is None
        self.highest = max(self.highest, (self.life, generation))
        stored = [decode_group(record.value).generation for record in self.group_records()]
        assert stored == sorted(stored)

    def group_records(self):
        """The group's records since it was last deleted."""
        found = []
        for record in self.world.log:
            if decode_classic_key(record.key) is not None:
                found = [] if record.value is None else [*found, record]
        return found

    @invariant()
    def the_working_copy_is_consistent(self):
        group = self.group()
        if group is None:
            return
        members = group.members
        assert group.joining.keys() <= members.keys()
        assert group.syncing.keys() <= members.keys()
        assert group.unsynced.keys() <= members.keys()
        assert not group.pending.keys() & members.keys()
        assert (group.leader in members) == bool(members)
        statics = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
        assert group.static_members == statics
        spoken = Counter(name for m in members.values() for name, _ in m.protocols)
        assert +Counter(group.supporters) == spoken

    @invariant()
    def replies_are_held_back_in_their_phase_only(self):
        group = self.group()
        if group is None:
            return
        assert not group.joining or group.state is GroupState.PREPARING_REBALANCE
        assert not group.syncing or group.state is GroupState.COMPLETING_REBALANCE
        assert group.state is not GroupState.EMPTY or not group.members

    def teardown(self):
        """When all consumers are silent, every held reply is sent and the group becomes empty."""
        self.consumers = []
        for _ in self.world.advance(700_000):
            pass
        assert not self.world.waiting
        group = self.group()
        assert group is None or group.state is GroupState.EMPTY


GroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestGroupMachine = GroupMachine.TestCase
