"""A shard of groups in its own world, and the parts of its state that must be the same after replay."""

from shard_world import ShardWorld, compacted

from odradek.coordinator.groups.classic.states import GroupState
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.shard import ClientInfo, GroupShard
from odradek.coordinator.metadata.image.image import MetadataImage


def durable_view(shard):
    """All state that records describe, in a form that can be compared."""
    table = shard.table
    groups = {
        group_id: _value_view(group.stored)
        for group_id, group in table.classic.groups.items()
        if group.stored is not None
    }
    offsets = sorted(
        (group_id, topic, index, str(value))
        for group_id, topics in table.offsets.store.groups()
        for topic, partitions in topics.items()
        for index, value in partitions.items()
    )
    return groups, offsets, {group_id: _consumer_view(group) for group_id, group in table.consumer.groups.items()}


def _consumer_view(group):
    """Every slot of a consumer group that records describe.

    Dicts are sorted: members are in the log's order, which compaction changes.
    """
    view = {name: getattr(group, name) for name in group.__slots__ if name != "empty_since_ms"}
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
    """The live state of a Stable or Empty group, which must equal the state of a group built by replay."""
    members = [
        (
            *(m.member_id, m.group_instance_id, m.client_id, m.client_host, m.rebalance_timeout_ms),
            *(m.session_timeout_ms, m.metadata(group.protocol), m.assignment),
        )
        for m in group.members.values()
    ]
    head = (group.state, group.generation, group.protocol, group.leader)
    return (*head, group.static_members, group.subscribed_topics, members)


class World(ShardWorld):
    """A shard of groups that sees `image`."""

    def __init__(self, config=None, image=None):
        self.config, self.image = config or GroupConfig(), image or MetadataImage()
        super().__init__(now_ms=0)

    def make(self):
        return GroupShard(self.config, lambda: self.image)

    def check(self):
        """Checks that replay of the whole and of the compacted log gives the live state."""
        for log in (self.log, compacted(self.log)):
            rebuilt = self.rebuild(log)
            assert durable_view(rebuilt) == durable_view(self.shard)
            for group_id, group in self.shard.table.classic.groups.items():
                settled = group.state in {GroupState.STABLE, GroupState.EMPTY}
                if settled and group.stored is not None:
                    assert settled_view(rebuilt.table.classic.groups[group_id]) == settled_view(group)

    def caller(self, api_version, client_id="client", new_member_id="uuid"):
        return ClientInfo(api_version, client_id, "/127.0.0.1", new_member_id)
