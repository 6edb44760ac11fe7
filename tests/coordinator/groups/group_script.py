"""The language of `scripts/*.txt`: commands to one shard, and its decisions as text.

A client uses the member id and generation that it received last, as real clients do; `id=` and `gen=` override them.
"""

import dataclasses
import shlex
from uuid import UUID

from group_world import World

from odradek.coordinator.groups.classic.consumer_protocol import subscribed_topics
from odradek.coordinator.groups.classic.records import decode_classic_key, decode_group
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.offsets.records import decode_offset, decode_offset_key
from odradek.wire.consumer_metadata import decode_assignment
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
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
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.schema.schema import Struct


def subscription(topics, owned=""):
    """ConsumerProtocolSubscription version 0, or 1 with the `owned` partitions of one topic, as in `t:0+1`."""
    names = [name.encode() for name in topics]
    head = (b"\0\1" if owned else b"\0\0") + len(names).to_bytes(4, "big")
    data = head + b"".join(len(n).to_bytes(2, "big") + n for n in names) + b"\xff\xff\xff\xff"
    if not owned:
        return data
    topic, _, indexes = owned.partition(":")
    partitions = [int(index).to_bytes(4, "big") for index in indexes.split("+")]
    data += b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode()
    return data + len(partitions).to_bytes(4, "big") + b"".join(partitions)


@dataclasses.dataclass
class Client:
    name: str
    group: str = "g"
    version: int = 9
    member_id: str = ""
    instance: str | None = None
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None


class Script:
    """Runs the blocks of one file; each command is a method `do_...`."""

    def __init__(self):
        self.world = World()
        self.clients: dict[str, Client] = {}
        self.askers: dict[int, str] = {}
        self.ids = 0

    def run(self, commands):
        lines = []
        for command in commands:
            words = shlex.split(command, comments=True)
            if words:
                method = getattr(self, "do_" + words[0].replace("-", "_"))
                lines += method(*split_options(words[1:]))
        return lines or ["nothing"]

    # Plumbing

    def client(self, name, options):
        client = self.clients.setdefault(name, Client(name))
        client.group = options.get("group", client.group)
        client.version = int(options.get("v", client.version))
        client.member_id = options.get("id", client.member_id)
        client.instance = options.get("instance", client.instance)
        client.generation = int(options.get("gen", client.generation))
        return client

    def call(self, asker, version, operation, request):
        self.ids += 1
        token = self.world.token()
        self.askers[token] = asker
        caller = self.world.caller(version, asker, str(self.ids))
        return self.show(*self.world.apply(operation(request, caller, token, self.world.now_ms)))

    def show(self, records, replies):
        lines = [show_record(record) for record in records]
        for reply in replies:
            asker = self.askers.pop(reply.token)
            lines.append(f"{asker} <- {show(reply.value)}")
            if isinstance(reply.value, JoinGroupResponse) and asker in self.clients:
                self.remember(self.clients[asker], reply.value)
        return lines

    def remember(self, client, response):
        if response.error_code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
            client.member_id, client.generation = response.member_id, response.generation_id
            client.protocol_type, client.protocol = response.protocol_type, response.protocol_name

    # Commands

    def do_config(self, _, options):
        self.world = World(GroupConfig(**{key: int(value) for key, value in options.items()}))
        return ["ok"]

    def do_limit(self, _, options):
        """Changes the config, for a restart that follows."""
        changes = {key: int(value) for key, value in options.items()}
        self.world.config = dataclasses.replace(self.world.config, **changes)
        return ["ok"]

    def do_join(self, names, options):
        """`empty=` names a protocol without metadata, unlike the others."""
        client = self.client(names[0], options)
        metadata = subscription(options.get("topics", "t").split(","), options.get("owned", ""))
        if "metadata" in options:
            metadata = options["metadata"].encode()
        names = [p for p in options.get("protocols", "range").split(",") if p]
        protocols = [(p, b"" if p == options.get("empty") else metadata) for p in names]
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=options.get("type", "consumer"),
            protocols=tuple(JoinGroupRequestProtocol(name=p, metadata=memoryview(data)) for p, data in protocols),
        )
        return self.call(client.name, client.version, self.world.shard.join_group, request)

    def do_sync(self, names, options):
        client = self.client(names[0], options)
        given = [pair.split(":") for pair in options.get("assign", "").split(",") if pair]
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=options.get("type", client.protocol_type),
            protocol_name=options.get("protocol", client.protocol),
            assignments=tuple(
                SyncGroupRequestAssignment(
                    member_id=self.clients[name].member_id if name in self.clients else name,
                    assignment=memoryview(what.encode()),
                )
                for name, what in given
            ),
        )
        return self.call(client.name, client.version, self.world.shard.sync_group, request)

    def do_heartbeat(self, names, options):
        lines = []
        for name in names:
            client = self.client(name, options)
            request = HeartbeatRequest(
                group_id=client.group,
                generation_id=client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance,
            )
            self.ids += 1  # ids of new members contain the count of requests
            answer = self.world.shard.heartbeat(request, self.world.now_ms)
            self.world.check()
            lines.append(f"{name} <- {show(answer)}")
        return lines

    def do_leave(self, names, options):
        client = self.client(names[0], options)
        members = tuple(
            MemberIdentity(member_id=self.clients[name].member_id, group_instance_id=self.clients[name].instance)
            for name in names
        )
        old = int(options.get("v", 5)) < 3
        request = LeaveGroupRequest(
            group_id=client.group, member_id=client.member_id if old else "", members=() if old else members
        )
        return self.call(client.name, int(options.get("v", 5)), self.world.shard.leave_group, request)

    def do_remove(self, names, options):
        """An administrator removes static members."""
        members = tuple(MemberIdentity(member_id="", group_instance_id=name) for name in names)
        request = LeaveGroupRequest(group_id=options.get("group", "g"), members=members)
        return self.call("admin", 5, self.world.shard.leave_group, request)

    def do_commit(self, words, options):
        offsets = {key: value for key, value in options.items() if ":" in key}
        settings = {key: value for key, value in options.items() if key not in offsets}
        client = self.client(words[0], {k: v for k, v in settings.items() if k != "v"})
        topics = tuple(commit_topic(*key.split(":"), value, settings) for key, value in offsets.items())
        request = OffsetCommitRequest(
            group_id=client.group,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            retention_time_ms=int(settings.get("retention", -1)),
            topics=topics,
        )
        return self.call(client.name, int(settings.get("v", 9)), self.world.shard.offset_commit, request)

    def do_fetch(self, words, options):
        version = int(options.get("v", 9))
        topics = None
        if words:
            topics = [(w.split(":")[0], tuple(map(int, w.split(":")[1].split("+")))) for w in words]
        group = options.get("group", "g")
        if version >= 8:
            listed = topics and tuple(OffsetFetchRequestTopics(name=n, partition_indexes=p) for n, p in topics)
            asked = OffsetFetchRequestGroup(
                group_id=group,
                topics=listed,
                member_id=options.get("member"),
                member_epoch=int(options.get("member-epoch", -1)),
            )
            request = OffsetFetchRequest(groups=(asked,))
        else:
            listed = topics and tuple(OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in topics)
            request = OffsetFetchRequest(group_id=group, topics=listed)
        return self.call("admin", version, self.world.shard.offset_fetch, request)

    def do_offset_delete(self, words, options):
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=word.split(":")[0],
                partitions=tuple(
                    OffsetDeleteRequestPartition(partition_index=int(p)) for p in word.split(":")[1].split("+")
                ),
            )
            for word in words
        )
        request = OffsetDeleteRequest(group_id=options.get("group", "g"), topics=topics)
        return self.call("admin", 0, self.world.shard.offset_delete, request)

    def do_topics_deleted(self, names, _):
        return self.show(*self.world.apply(self.world.shard.on_topics_deleted(names, self.world.now_ms)))

    def do_describe(self, names, options):
        return self.call("admin", int(options.get("v", 6)), self.world.shard.describe_group, names[0])

    def do_list(self, _, options):
        request = ListGroupsRequest(
            states_filter=tuple(s for s in options.get("states", "").split(",") if s),
            types_filter=tuple(s for s in options.get("types", "").split(",") if s),
        )
        return self.call("admin", 5, self.world.shard.list_groups, request)

    def do_delete(self, names, _):
        return self.call("admin", 2, self.world.shard.delete_group, names[0])

    def do_advance(self, words, _):
        lines = []
        for records, replies in self.world.advance(int(words[0])):
            decided = self.show(records, replies)
            lines += [f"at {self.world.now_ms}: {line}" for line in decided]
        return lines

    def do_restart(self, _, __):
        self.askers.clear()
        records, replies = self.world.restart()
        return ["restarted", *self.show(records, replies)]


def commit_topic(topic, partition, value, settings):
    return OffsetCommitRequestTopic(
        name=topic,
        topic_id=UUID(int=int(settings.get("topic-id", 0))),
        partitions=(
            OffsetCommitRequestPartition(
                partition_index=int(partition),
                committed_offset=int(value),
                committed_leader_epoch=int(settings.get("epoch", -1)),
                committed_metadata=settings.get("metadata"),
            ),
        ),
    )


def split_options(words):
    names = [word for word in words if "=" not in word]
    return names, dict(word.split("=", 1) for word in words if "=" in word)


def show_record(record):
    key = decode_offset_key(record.key)
    if key is not None:
        group_id, topic, partition = key
        what = f"offset {group_id} {topic}:{partition}"
        return f"write {what} {show(decode_offset(record.value)) if record.value else 'tombstone'}"
    group_id = decode_classic_key(record.key)
    return f"write group {group_id} {show(decode_group(record.value)) if record.value else 'tombstone'}"


def show(value):
    """A struct as its name and the fields that differ from their defaults."""
    if isinstance(value, Struct):
        given = [
            f"{spec.name}={show_field(spec.name, getattr(value, spec.name))}"
            for spec in type(value).__fields__
            if getattr(value, spec.name) != spec.default
        ]
        return " ".join([type(value).__name__, *given])
    return str(value)


def show_field(name, value):
    if name == "error_code":
        return ErrorCode(value).name
    if isinstance(value, tuple):
        return "[" + ", ".join(f"({show(item)})" for item in value) + "]"
    if isinstance(value, memoryview | bytes):
        return show_bytes(name, bytes(value))
    return repr(value) if isinstance(value, str) else str(value)


def show_bytes(name, data):
    if not data.startswith(b"\0"):
        return repr(data.decode())
    if name in {"assignment", "member_assignment"}:
        held = decode_assignment(data).assigned_partitions
        return "<" + ",".join(f"{topic.topic}:{'+'.join(map(str, topic.partitions))}" for topic in held) + ">"
    return "<" + ",".join(subscribed_topics(data)) + ">"
