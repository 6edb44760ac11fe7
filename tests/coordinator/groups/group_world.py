"""A stand-in for the runtime around one shard: replays outcomes at once, keeps the log, compares after each step."""

from dataclasses import dataclass, field

from coordinator.groups.config import GroupConfig
from coordinator.groups.shard import Caller, GroupShard
from coordinator.groups.states import GroupState
from coordinator.metadata.image import MetadataImage
from coordinator.shard import Outcome, Reply, ShardRecord, Token


def durable_view(shard):
    """All that records describe, in a form that can be compared."""
    table = shard._table
    groups = {
        group_id: _value_view(group.stored) for group_id, group in table.groups.items() if group.stored is not None
    }
    offsets = sorted((*where, str(value)) for *where, value in table.offsets.each())
    return groups, offsets, {group_id: _consumer_view(group) for group_id, group in table.consumer.groups.items()}


def _consumer_view(group):
    """Every slot of a consumer group; the order of members is the log's, which compaction changes."""
    view = {name: getattr(group, name) for name in group.__slots__}
    return {
        name: dict(sorted(value.items(), key=str)) if isinstance(value, dict) else value for name, value in view.items()
    }


def _value_view(value):
    members = [
        (
            *(m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout, m.session_timeout),
            *(bytes(m.subscription), bytes(m.assignment)),
        )
        for m in value.members
    ]
    head = (value.protocol_type, value.generation, value.protocol, value.leader, value.current_state_timestamp)
    return (*head, members)


def settled_view(group):
    """What a Stable or Empty group believes; it must agree with the group that replay alone builds."""
    members = [
        (
            *(m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout_ms),
            *(m.session_timeout_ms, m.metadata(group.protocol), m.assignment),
        )
        for m in group.members.values()
    ]
    head = (group.state, group.generation, group.protocol, group.leader)
    return (*head, group.static_members, group.subscribed_topics, members)


def compacted(log):
    """What log compaction would leave: the last record of each key, tombstones gone."""
    last = {}
    for record in log:
        last.pop(record.key, None)
        last[record.key] = record
    return [record for record in last.values() if record.value is not None]


@dataclass
class World:
    """One shard under virtual time."""

    config: GroupConfig = field(default_factory=GroupConfig)
    now_ms: int = 0
    log: list[ShardRecord] = field(default_factory=list)
    image: MetadataImage = field(default_factory=MetadataImage)

    def __post_init__(self):
        self.shard = GroupShard(self.config, lambda: self.image)
        self.tokens = 0
        self.waiting: set[Token] = set()
        self.apply(self.shard.on_loaded(self.now_ms))

    def token(self):
        self.tokens += 1
        self.waiting.add(Token(self.tokens))
        return Token(self.tokens)

    def apply(self, outcome: Outcome) -> tuple[list[ShardRecord], list[Reply]]:
        for record in outcome.records:
            self.shard.replay(record, self.now_ms)
            self.log.append(record)
        for reply in outcome.replies:
            assert reply.token in self.waiting, f"{reply} answers nobody, or twice"
            self.waiting.discard(reply.token)
        self.check_replay()
        return list(outcome.records), list(outcome.replies)

    def rebuild(self, log) -> GroupShard:
        shard = GroupShard(self.config, lambda: self.image)
        for record in log:
            shard.replay(record, self.now_ms)
        return shard

    def check_replay(self):
        """State equals replay, of the whole log and of the compacted one."""
        for log in (self.log, compacted(self.log)):
            rebuilt = self.rebuild(log)
            assert durable_view(rebuilt) == durable_view(self.shard)
            for group_id, group in self.shard._table.groups.items():
                settled = group.state in {GroupState.STABLE, GroupState.EMPTY}
                if settled and group.stored is not None:
                    assert settled_view(rebuilt._table.groups[group_id]) == settled_view(group)

    def restart(self):
        """Lose all soft state, and everybody who waits."""
        self.shard = self.rebuild(compacted(self.log))
        self.waiting.clear()
        return self.apply(self.shard.on_loaded(self.now_ms))

    def advance(self, duration_ms):
        """Let time pass, calling on_time whenever it is due; yields (records, replies) of each call."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            yield self.apply(self.shard.on_time(self.now_ms))
        self.now_ms = end_ms

    def caller(self, api_version, client_id="client", new_member_id="uuid"):
        return Caller(api_version, client_id, "/127.0.0.1", new_member_id)
