"""Sends scripts of random group requests to brokers and to the pure shard, and compares the answers.

A script is made while it runs: each step is a request of one consumer, which has its own connection. A broker may hold
back the answers to JoinGroup and SyncGroup, and a test cannot tell such an answer from a slow one. So each step also
runs on the pure shard, which determines the consumers that are answered by the step, and the state of the group
afterwards: every broker must answer exactly these consumers, with equal answers, and show the same state. Time-outs are
long here and never fire.

Which member leads after the leader has left differs between brokers (docs/differences.md): a script ends where two
brokers choose differently.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from random import Random
from typing import Any, Protocol

from compat_tests.every_version import comparable
from compat_tests.random_groups import (
    PARTITIONS,
    UNKNOWN,
    VERSIONS,
    WAIT_LIMIT_S,
    Consumer,
    ConsumerState,
    Generator,
    Step,
)
from odradek.coordinator.contract import Outcome, Reply, Token
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.shard import ClientInfo, GroupShard
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.wire.messages.offset_commit import OffsetCommitRequest
from odradek.wire.messages.offset_delete import OffsetDeleteRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.wire.schema.schema import Message, Struct


class Channel(Protocol):
    """One side of the comparison, reduced to requests and answers; consumers are numbers."""

    def send(self, consumer: int, version: int, request: Message) -> None: ...

    def receive(self, consumer: int, key: ApiKey, version: int) -> Any: ...

    def spoke_unasked(self, consumers: list[int]) -> list[int]:
        """The waiting consumers for which an answer has arrived."""
        ...

    def reconnect(self, consumer: int) -> None: ...

    def shape(self, group: str) -> Shape:
        """The group's state and its members' ids."""
        ...


Shape = tuple[str, frozenset[str]]


class NotShownError(Exception):
    """Kafka's description of a group does not show what it has answered."""


class Side:
    """A channel, the state of its consumers, and names for its member ids that are the same on all sides."""

    def __init__(self, channel: Channel, consumers: int) -> None:
        self.channel = channel
        self.states = [ConsumerState() for _ in range(consumers)]
        self.names: dict[str, str] = {"": "", UNKNOWN: UNKNOWN}
        self.leader = ""
        """The member id of the leader, by the last JoinGroup that succeeded."""
        self._given = [0] * consumers

    def take(self, consumer: int, response: Any) -> None:
        """Updates a consumer's state by an answer."""
        state = self.states[consumer]
        state.waits_for = state.offered = None
        if isinstance(response, JoinGroupResponse):
            self._name(consumer, response.member_id)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                state.member_id = response.member_id
            elif not response.error_code:
                state.member_id, state.generation = response.member_id, response.generation_id
                state.protocol = response.protocol_name
                state.lead = tuple(member.member_id for member in response.members)
                self.leader = response.leader
        error = getattr(response, "error_code", 0)
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            state.member_id, state.generation, state.lead = "", -1, ()

    def _name(self, consumer: int, member_id: str) -> None:
        if member_id not in self.names:
            self._given[consumer] += 1
            self.names[member_id] = f"consumer {consumer}, id {self._given[consumer]}"

    def name_of(self, member_id: str) -> str:
        """The name on all sides; "unnamed" for an id that its consumer never received."""
        return self.names.get(member_id, "unnamed")

    def plain(self, value: Any, name: str = "") -> Any:
        """An answer as plain data, with member ids by their names, and members sorted by these."""
        if name in ("member_id", "leader"):
            return self.name_of(value)
        if isinstance(value, Struct):
            named = {each.name: self.plain(getattr(value, each.name), each.name) for each in fields(value)}  # type: ignore[arg-type]
            return {key: inner for key, inner in named.items() if key != "unknown_tagged_fields"}
        if isinstance(value, tuple | list):
            items = [self.plain(item) for item in value]
            return sorted(items, key=repr) if name in ("members", "topics", "partitions", "groups") else items
        return comparable(value, name)


class ShardChannel:
    """The pure shard."""

    def __init__(self) -> None:
        self._shard = GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1000))
        self._tokens = 0
        self._offset = 0
        self._waiting: dict[int, int] = {}
        self._answers: dict[int, Any] = {}

    def send(self, consumer: int, version: int, request: Message) -> None:
        self._tokens += 1
        token = Token(self._tokens)
        self._waiting[token] = consumer
        client = ClientInfo(version, "random-groups", "/127.0.0.1", str(token))
        for outcome in self._operate(request, client, token):
            self._apply(outcome)
        while (due_ms := self._shard.next_deadline_ms()) is not None and due_ms <= 0:
            for outcome in self._shard.on_time(0):
                self._apply(outcome)

    def _operate(self, request: Any, client: ClientInfo, token: Token) -> list[Outcome]:
        shard = self._shard
        if isinstance(request, DescribeGroupsRequest | OffsetFetchRequest | ListGroupsRequest):
            self._answers[self._waiting.pop(token)] = None
            return []
        if isinstance(request, DeleteGroupsRequest):
            return [shard.delete_group(request.groups_names[0], client, token, 0)]
        if isinstance(request, OffsetCommitRequest):
            topic = request.topics[0]
            if topic.partitions[0].partition_index >= PARTITIONS:  # refused before it gets to the shard
                self._answers[self._waiting.pop(token)] = None
                return []
        if isinstance(request, HeartbeatRequest):
            return [Outcome((), (Reply(token, shard.heartbeat(request, 0)),))]
        operations: dict[type[Message], Callable[[Any, ClientInfo, Token, int], Outcome]] = {
            JoinGroupRequest: shard.join_group,
            SyncGroupRequest: shard.sync_group,
            LeaveGroupRequest: shard.leave_group,
            OffsetCommitRequest: shard.offset_commit,
            OffsetDeleteRequest: shard.offset_delete,
        }
        return [operations[type(request)](request, client, token, 0)]

    def _apply(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self._shard.replay(record, self._offset, 0, 0)
            self._offset += 1
        for reply in outcome.replies:
            consumer = self._waiting.pop(reply.token, None)
            if consumer is not None:
                self._answers[consumer] = reply.value

    def answered(self) -> dict[int, Any]:
        """The consumers that were answered since the last call, with their answers."""
        answers, self._answers = self._answers, {}
        return answers

    def receive(self, consumer: int, key: ApiKey, version: int) -> Any:
        raise AssertionError("asked for its answers with `answered`")

    def spoke_unasked(self, consumers: list[int]) -> list[int]:
        return []

    def reconnect(self, consumer: int) -> None:
        self._waiting = {token: each for token, each in self._waiting.items() if each != consumer}

    def shape(self, group: str) -> Shape:
        client = ClientInfo(0, "random-groups", "/127.0.0.1", "")
        [reply] = self._shard.describe_group(group, client, Token(0), 0).replies
        assert isinstance(reply.value, DescribedGroup)
        return _shape(reply.value)


def _shape(described: DescribedGroup) -> Shape:
    return described.group_state, frozenset(member.member_id for member in described.members)


class BrokerChannel:
    """A broker, with a connection for each consumer and one more for descriptions."""

    def __init__(self, bootstrap: str, consumers: int) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._address = host, int(port)
        self._sockets = [self._connect() for _ in range(consumers + 1)]
        self._correlation = 0

    def _connect(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=WAIT_LIMIT_S)

    def close(self) -> None:
        for each in self._sockets:
            each.close()

    def send(self, consumer: int, version: int, request: Message) -> None:
        self._correlation += 1
        self._sockets[consumer].sendall(encode_request(request, version, self._correlation, "random-groups"))

    def receive(self, consumer: int, key: ApiKey, version: int) -> Any:
        (size,) = struct.unpack(">i", self._exactly(consumer, 4))
        return decode_response(key, version, self._exactly(consumer, size))[1]

    def _exactly(self, consumer: int, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._sockets[consumer].recv(size - len(data))
            if not chunk:
                raise ConnectionResetError(f"the connection of consumer {consumer} was closed")
            data += chunk
        return bytes(data)

    def spoke_unasked(self, consumers: list[int]) -> list[int]:
        readable = select.select([self._sockets[each] for each in consumers], [], [], 0)[0]
        return [each for each in consumers if self._sockets[each] in readable]

    def reconnect(self, consumer: int) -> None:
        self._sockets[consumer].close()
        self._sockets[consumer] = self._connect()

    def shape(self, group: str) -> Shape:
        self.send(-1, 0, DescribeGroupsRequest(groups=(group,)))
        return _shape(self.receive(-1, ApiKey.DESCRIBE_GROUPS, 0).groups[0])


class Play:
    """One script from one seed, for the shard and all brokers at once, the first of which is Kafka."""

    def __init__(self, seed: int, brokers: Mapping[str, BrokerChannel], group: str, topic: str) -> None:
        chance = Random(f"{seed}/{group.rpartition('.')[2]}")
        eras = [chance.choice(tuple(VERSIONS)) for _ in range(4)]
        self._consumers = [
            Consumer(number, era, f"i{number}" if era != "old" and chance.random() < 0.4 else None)
            for number, era in enumerate(eras)
        ]
        self.seed, self._group = seed, group
        self._offers: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._generator = Generator(chance, self._consumers, group, topic)
        self._shard = ShardChannel()
        self._model = Side(self._shard, len(self._consumers))
        self._brokers = {name: Side(channel, len(self._consumers)) for name, channel in brokers.items()}
        self._sides = [self._model, *self._brokers.values()]
        self._kafka = next(iter(brokers))
        self.script: list[str] = []
        self.steps = 0

    def run(self, steps: int) -> dict[str, Any] | None:
        """Plays the script; returns the first difference, by broker, or None. `script` has the steps so far."""
        for _ in range(steps):
            exists = self._shard.shape(self._group)[0] != "Dead"
            step = self._generator.next(self._model.states, group_exists=exists)
            if step is None:
                self.script.append("ends: all consumers wait")
                return None
            self.script.append(f"{self._consumers[step.consumer]} {step.what}")
            try:
                found = self._come_back(step.consumer) if step.key is None else self._ask(step, step.key)
            except NotShownError as error:
                self.script.append(f"ends: {error}")
                return None
            self.steps += 1
            if self._leaders_differ():
                self.script.append("ends: the brokers have chosen different leaders")
                return None
            if found is not None:
                return found
        return None

    def _come_back(self, consumer: int) -> None:
        for side in self._sides:
            side.channel.reconnect(consumer)
            state = side.states[consumer]
            state.offered = self._offers.get(consumer) if state.waits_for is ApiKey.JOIN_GROUP else None
            state.waits_for = None

    def _ask(self, step: Step, key: ApiKey) -> dict[str, Any] | None:
        version = self._consumers[step.consumer].version(key)
        before = [side.channel.shape(self._group) for side in self._sides]
        if step.offer is not None:
            self._offers[step.consumer] = step.offer
        for side in self._sides:
            request = step.build(side)
            side.states[step.consumer].waits_for = key
            side.channel.send(step.consumer, version, request)
        expected = self._shard.answered()
        if step.consumer not in expected:
            self._await_shape(before)
        lost = [each for each in expected if each != step.consumer and self._is_left_waiting(expected[each])]
        received = [each for each in expected if each not in lost]
        taken = {name: self._take(side, received, lost) for name, side in self._brokers.items()}
        for consumer, answer in expected.items():
            self._model.take(consumer, answer)
        for consumer in lost:
            self._come_back(consumer)
        first, *others = taken.values()
        if any(first != other for other in others) or any(side.get("unasked") for side in taken.values()):
            return taken
        self._await_shape(before)
        return None

    def _await_shape(self, before: list[Shape]) -> None:
        """Waits until every broker shows the group as the shard has it: its state, and the numbers of joins and leaves.

        Kafka shows what it has answered slightly later, and a request that it holds back may not have arrived yet. What
        is not shown (which of the known members have joined, or synced, already) gives the same answers in any order.
        Kafka describes committed state, and may hold back a change that wrote nothing until something is written:
        NotShownError, since the script cannot continue then.
        """
        (state, members), (_, earlier) = self._shard.shape(self._group), before[0]
        change = (state, len(members - earlier), len(earlier - members))
        deadline = time.monotonic() + WAIT_LIMIT_S
        for name, side, (_, known) in zip(["the shard", *self._brokers], self._sides, before, strict=True):
            while True:
                state, members = side.channel.shape(self._group)
                if (state, len(members - known), len(known - members)) == change:
                    break
                if time.monotonic() > deadline:
                    found = f"{state} {members} on {name}"
                    problem = f"seed {self.seed}: {change} expected of {found}, after {self.script}"
                    raise NotShownError(problem) if name == self._kafka else AssertionError(problem)

    @staticmethod
    def _is_left_waiting(answer: Any) -> bool:
        """Kafka never answers a member that is removed while it waits in SyncGroup (docs/differences.md)."""
        return isinstance(answer, SyncGroupResponse) and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def _take(self, side: Side, consumers: list[int], lost: list[int]) -> dict[str, Any]:
        answers: dict[int, Any] = {}
        for consumer in consumers:
            key = side.states[consumer].waits_for
            assert key is not None
            try:
                answers[consumer] = side.channel.receive(consumer, key, self._consumers[consumer].version(key))
            except OSError as error:
                return {f"consumer {consumer}": f"no answer: {error!r}"}
        for consumer, answer in answers.items():
            if isinstance(answer, ListGroupsResponse):
                ours = tuple(each for each in answer.groups if each.group_id == self._group)
                answers[consumer] = replace(answer, groups=ours)
            side.take(consumer, answer)
        waiting = [number for number, state in enumerate(side.states) if state.waits_for is not None]
        unasked = side.channel.spoke_unasked([each for each in waiting if each not in lost])
        shown = {f"consumer {consumer}": side.plain(answer) for consumer, answer in answers.items()}
        return {**shown, "unasked": unasked} if unasked else shown

    def _leaders_differ(self) -> bool:
        """True also if no consumer knows that it leads: the answer to the leader's JoinGroup may be lost."""
        leads = {(side.name_of(side.leader), *(bool(state.lead) for state in side.states)) for side in self._sides}
        return len(leads) > 1
