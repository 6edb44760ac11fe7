"""The resolution of a group's regular expressions by a resolver that keeps only some results."""

from consumer_script import topics_image
from group_world import World

from odradek.coordinator.groups.consumer.resolver import AT_ONCE
from odradek.coordinator.groups.shard import GroupShard
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

EXPRESSIONS = ("foo", "bar.*", "foo|baz")


class ForgetfulResolver:
    """Keeps the result of one expression: of those requested since `finish`, the last one."""

    def __init__(self):
        self.requested, self.kept = None, None

    def check(self, regex):
        AT_ONCE.check(regex)

    def topics(self, regex, image):
        if regex == self.kept:
            return AT_ONCE.topics(regex, image)
        self.requested = regex
        return None

    def finish(self):
        self.kept = self.requested


class ForgetfulWorld(World):
    def __init__(self):
        self.resolver = ForgetfulResolver()
        super().__init__()

    def make(self):
        return GroupShard(self.config, lambda: self.image, self.resolver)


def test_a_group_with_more_expressions_than_the_resolver_keeps_is_resolved():
    world = ForgetfulWorld()
    world.image = topics_image(world.image, {"foo": 1, "bar-1": 1, "baz": 1})
    for number, regex in enumerate(EXPRESSIONS):
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=regex,
            topic_partitions=(),
        )
        world.apply(world.shard.consumer_group_heartbeat(joining, world.caller(1), world.token(), world.now_ms))
    for _ in world.advance(1000):
        world.resolver.finish()
    group = world.shard.table.consumer.groups["g"]
    assert {regex: set(resolved.topics) for regex, resolved in group.regexes.items()} == {
        "foo": {"foo"},
        "bar.*": {"bar-1"},
        "foo|baz": {"foo", "baz"},
    }
    assert not world.shard.table.consumer.matched
