"""Commands for consumer groups (KIP-848) in addition to those of `group_script`, and their answers in short form.

`enter` joins and stores the member epoch it receives; `beat` continues from there. `owns=` lists the owned partitions
of the heartbeat (`owns=all`: all that were last assigned); without it the field is null.
"""

import dataclasses
from uuid import UUID

from group_script import Script, show, show_record

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.groups.classic.leave import BATCH_VERSION
from odradek.coordinator.groups.config import ConsumerGroupConfig
from odradek.coordinator.groups.consumer.member_state import MemberState
from odradek.coordinator.groups.consumer.replay import decode_consumer_key
from odradek.coordinator.metadata.image.image import PartitionImage, TopicImage
from odradek.wire.consumer_metadata import decode_assignment, encode_assignment
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_describe import DescribedGroup
from odradek.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from odradek.wire.messages.join_group import JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.stored.framing import decode_value, group_value_types

PARTITION = PartitionImage(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)


@dataclasses.dataclass
class NewClient:
    """The client side of a member that uses the consumer protocol."""

    name: str
    group: str = "g"
    member_id: str = ""
    instance: str | None = None
    epoch: int = 0
    has: str = ""


def consumer_assignment(topic, indexes, user_data):
    partitions = tuple(map(int, indexes.split("+")))
    named = (ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions),)
    return ConsumerProtocolAssignment(assigned_partitions=named, user_data=user_data)


def topics_image(image, counts):
    """The image with exactly these topics; a topic keeps its id until it is removed."""
    known = image.topics_by_name
    fresh = max(image.offset, 0) + 1
    topics = {
        name: TopicImage(
            name, known[name].topic_id if name in known else UUID(int=fresh + n), False, (PARTITION,) * count
        )
        for n, (name, count) in enumerate(counts.items())
    }
    by_id = {topic.topic_id: topic for topic in topics.values()}
    return dataclasses.replace(image, topics_by_name=topics, topics_by_id=by_id, offset=fresh + len(topics))


class ConsumerScript(Script):
    def __init__(self):
        super().__init__()
        self.new_clients: dict[str, NewClient] = {}
        self.topic_names: dict[UUID, str] = {}

    # Commands

    def do_config(self, _, options):
        """Options are the consumer protocol's, unless `GroupConfig` has one of that name."""
        classic = {key: int(value) for key, value in options.items() if hasattr(self.world.config, key)}
        own = {key: value for key, value in options.items() if key not in classic}
        typed = {f"group_consumer_{key}": int(v) if v.isdecimal() else v for key, v in own.items()}
        consumer = dataclasses.replace(ConsumerGroupConfig(), **typed)
        self.world.config = dataclasses.replace(self.world.config, **classic, consumer=consumer)
        self.world.restart()
        return ["ok"]

    def do_topics(self, _, options):
        counts = {name: int(count) for name, count in options.items()}
        self.world.image = topics_image(self.world.image, counts)
        self.topic_names |= {topic.topic_id: name for name, topic in self.world.image.topics_by_name.items()}
        return ["ok"]

    def do_group_config(self, names, options):
        texts = {f"consumer.{key.replace('_', '.')}": value for key, value in options.items()}
        configs = dict(self.world.image.configs) | {(ResourceType.GROUP, names[0]): texts}
        self.world.image = dataclasses.replace(self.world.image, configs=configs)
        return ["ok"]

    def do_enter(self, names, options):
        client = self.new_client(names[0], options)
        client.epoch = 0
        return self.beat(client, {"owns": "", "rebalance": "60000", **options}, names=options.get("topics"))

    def do_beat(self, names, options):
        lines = []
        for name in names:
            client = self.new_client(name, options)
            lines += self.beat(client, options, names=options.get("topics"))
        return lines

    def do_quit(self, names, options):
        client = self.new_client(names[0], options)
        client.epoch = -2 if "static" in names else -1
        return self.beat(client, {}, names=None)

    def leave_request(self, name):
        """The request with which a dynamic member of the consumer protocol leaves."""
        client = self.new_clients[name]
        return ConsumerGroupHeartbeatRequest(group_id=client.group, member_id=client.member_id, member_epoch=-1)

    def do_members(self, names, _):
        return self.call("admin", 1, self.describe, names[0])

    def do_assigned(self, names, _):
        """Shows the result of earlier time-outs: an advance of 0 ms."""
        return self.do_advance(["0"], {})

    def describe(self, group_id, _, token, now_ms):
        return self.world.shard.describe_consumer_group(group_id, token, now_ms)

    def do_sync(self, names, options):
        """A classic member syncs; `assign=a:t:0+1,b:t:2` is in the consumer's own format, each with `user-data`."""
        client = self.client(names[0], {k: v for k, v in options.items() if k not in {"assign", "user-data"}})
        user_data = options["user-data"].encode() if "user-data" in options else None
        given = [pair.split(":") for pair in options.get("assign", "").split(",") if pair]
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=client.protocol_type,
            protocol_name=client.protocol,
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=self.clients[name].member_id,
                    assignment=encode_assignment(consumer_assignment(topic, indexes, user_data), 0),
                )
                for name, topic, indexes in given
            ),
        )
        return self.call(client.name, client.version, self.world.shard.sync_group, request)

    def do_txn_commit(self, words, options):
        """`txn_commit a gen=2 t:0=5`: a producer commits on behalf of member a."""
        offsets = {key: value for key, value in options.items() if ":" in key}
        topics = tuple(
            TxnOffsetCommitRequestTopic(
                name=key.split(":")[0],
                topic_id=UUID(int=int(options.get("topic-id", 0))),
                partitions=(
                    TxnOffsetCommitRequestPartition(
                        partition_index=int(key.split(":")[1]), committed_offset=int(value), committed_metadata=""
                    ),
                ),
            )
            for key, value in offsets.items()
        )
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=1,
            producer_epoch=0,
            generation_id_or_member_epoch=int(options["gen"]),
            member_id=words[0],
            topics=topics,
        )
        return self.call(words[0], int(options.get("v", 5)), self.world.shard.txn_offset_commit, request)

    def do_evict(self, names, options):
        """An administrator removes members, by member id or as `/instance`, or both: `id/instance`."""
        named = [name.partition("/") for name in names]
        members = tuple(
            MemberIdentity(member_id=member_id, group_instance_id=instance or None) for member_id, _, instance in named
        )
        version = int(options.get("v", 5))
        only = {"member_id": names[0]} if version < BATCH_VERSION else {"members": members}
        return self.call("admin", version, self.world.shard.leave_group, LeaveGroupRequest(group_id="g", **only))

    # Plumbing

    def new_client(self, name, options):
        client = self.new_clients.setdefault(name, NewClient(name, member_id=name))
        client.group = options.get("group", client.group)
        client.member_id = options.get("id", client.member_id)
        client.instance = options.get("instance", client.instance)
        client.epoch = int(options.get("epoch", client.epoch))
        return client

    def beat(self, client, options, names):
        owns = options.get("owns")
        request = ConsumerGroupHeartbeatRequest(
            group_id=client.group,
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance,
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("rebalance", -1)),
            subscribed_topic_names=None if names is None else tuple(n for n in names.split(",") if n),
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=None if owns is None else self.partitions(client.has if owns == "all" else owns),
        )
        version = int(options.get("v", 1))
        return self.call(client.name, version, self.world.shard.consumer_group_heartbeat, request)

    def partitions(self, text):
        ids = {name: topic_id for topic_id, name in self.topic_names.items()}
        pairs = [pair.split(":") for pair in text.split(",") if pair]
        return tuple(
            TopicPartitions(topic_id=ids[name], partitions=tuple(map(int, indexes.split("+"))))
            for name, indexes in pairs
        )

    # Output

    def show(self, records, replies):
        lines = [self.show_record(record) for record in records]
        for reply in replies:
            asker = self.askers.get(reply.token)
            if isinstance(reply.value, ConsumerGroupHeartbeatResponse | DescribedGroup | SyncGroupResponse):
                del self.askers[reply.token]
                lines += self.show_reply(asker, reply.value)
            else:
                lines += super().show([], [reply])
        return lines

    def show_reply(self, asker, value):
        if value.error_code:
            return [f"{asker} <- {ErrorCode(value.error_code).name}"]
        if isinstance(value, DescribedGroup):
            return self.show_described(value)
        if isinstance(value, SyncGroupResponse):
            held = decode_assignment(value.assignment).assigned_partitions
            return [f"{asker} <- synced {self.show_partitions((topic.topic, topic.partitions) for topic in held)}"]
        client = self.new_clients[asker]
        client.member_id, client.epoch = value.member_id, value.member_epoch
        assigned = ""
        if value.assignment is not None:
            client.has = self.show_partitions(
                (self.topic_names[t.topic_id], t.partitions) for t in value.assignment.topic_partitions
            )
            assigned = f" has {client.has or 'nothing'}"
        return [f"{asker} <- epoch {value.member_epoch}{assigned}"]

    def show_described(self, group):
        epochs = f"epoch={group.group_epoch} target={group.assignment_epoch}"
        lines = [f"{group.group_id}: {group.group_state} {epochs} {group.assignor_name}"]
        for member in group.members:
            has, target = (
                self.show_partitions((t.topic_name, t.partitions) for t in each.topic_partitions) or "nothing"
                for each in (member.assignment, member.target_assignment)
            )
            kind = "consumer" if member.member_type else "classic"
            lines.append(
                f"{group.group_id}: {member.member_id} epoch={member.member_epoch} {kind} has {has} of {target}"
            )
        return lines

    def show_partitions(self, topics):
        return ",".join(f"{name}:{'+'.join(map(str, indexes))}" for name, indexes in sorted(topics))

    def show_record(self, record):
        key = decode_consumer_key(record.key)
        if key is None:
            return show_record(record)
        what = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        rest = [str(getattr(key, name)) for name in type(key).__slots__]
        if record.value is None:
            return f"write {what} {' '.join(rest)} tombstone"
        value = decode_value(group_value_types()[type(key).__message__.api_key], record.value)
        return f"write {what} {' '.join(rest)} {self.show_value(value)}"

    def show_value(self, value):
        shown = []
        for spec in type(value).__fields__:
            given = getattr(value, spec.name)
            if given != spec.default or spec.name == "state":
                shown.append(self.show_part(spec.name, given))
        return " ".join(shown) or "nothing"

    def show_part(self, name, given):
        if name == "state":
            return MemberState(given).name
        if name == "metadata_hash":
            return "hash=set"
        if name.endswith("partitions") or name == "partitions_pending_revocation":
            return f"{name}={self.show_partitions((self.topic_names[t.topic_id], self.indexes(t)) for t in given)}"
        if name == "classic_member_metadata":
            return f"classic={','.join(protocol.name for protocol in given.supported_protocols)}"
        return f"{name}={','.join(given) if isinstance(given, tuple) else show(given)}"

    def indexes(self, topic):
        epochs = getattr(topic, "assignment_epochs", None)
        return (
            topic.partitions if epochs is None else [f"{p}@{e}" for p, e in zip(topic.partitions, epochs, strict=True)]
        )

    def remember(self, client, response):
        super().remember(client, response)
        assert isinstance(response, JoinGroupResponse)
