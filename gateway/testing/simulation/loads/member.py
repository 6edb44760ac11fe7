"""A small member of a consumer group: joins, owns partitions, reads, commits, and rejoins at a rebalance."""

import itertools
import random
from typing import TypeVar

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, Client, UnreachableError
from odradek.gateway.testing.simulation.loads.commits import commit_positions
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Oracle, Violation
from odradek.gateway.testing.simulation.loads.records import read_page, values_of
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.wire.messages.offset_commit import OffsetCommitRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from odradek.wire.schema.codec import decode_exact, encode
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

SESSION_MS = 6000
REBALANCE_MS = 6000
HEARTBEAT_S = 1.0
VERSION_PREFIX = b"\x00\x00"


class GroupError(Exception):
    """An expected error of the coordinator or of a fetch, after which the member joins again or repeats the request."""

    def __init__(self, code: int) -> None:
        self.error = ErrorCode(code)
        super().__init__(self.error.name)


EXPECTED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

REFUSALS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
"""Errors after which a commit certainly has no effect; after others (the coordinator moved) it may have one."""


def raise_for(code: int) -> None:
    """Raise GroupError for an error in `EXPECTED`, Violation for any other."""
    if code:
        error = GroupError(code)
        if error.error not in EXPECTED:
            raise Violation(Invariant.MEMBERS_KEPT, f"a member was told {error.error.name}")
        raise error


class SimReader:
    """Reads from the partitions that a member holds."""

    def __init__(self, client: Client, oracle: Oracle, topic: str, chance: random.Random) -> None:
        self.positions: dict[int, int] = {}
        self.leader_epochs: dict[int, int] = {}
        """The leader epoch of the newest batch before each position."""
        self._client = client
        self._oracle = oracle
        self._topic = topic
        self._chance = chance

    async def fetch(self) -> None:
        """Fetch once from each partition; without partitions, sleep. Raises UnreachableError, GroupError, Violation."""
        if not self.positions:
            await trio.sleep(HEARTBEAT_S)
            return
        wanted = [
            FetchPartition(
                partition=partition, fetch_offset=position, partition_max_bytes=self._chance.choice((200, 5000))
            )
            for partition, position in self.positions.items()
        ]
        topic = FetchTopic(topic=self._topic, partitions=tuple(wanted))
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=100_000, topics=(topic,))
        answer = await self._client.call(request, 4.0)
        assert isinstance(answer, FetchResponse)
        for part in answer.responses[0].partitions:
            raise_for(part.error_code)
            self._take(part)

    def learn_leader_epoch(self, partition: int, leader_epoch: int) -> None:
        """The partition's new position is a committed offset with this leader epoch. As real consumers do, the reader
        then reads from no leader of an earlier epoch, whose log may end below that offset.
        """
        self.leader_epochs[partition] = leader_epoch
        self._client.learn_leader_epoch(self._topic, partition, leader_epoch)

    def _take(self, part: PartitionData) -> None:
        position = self.positions[part.partition_index]
        page = read_page(part, position)
        if page.leader_epoch >= 0:
            self.leader_epochs[part.partition_index] = page.leader_epoch
        name = self._client.host
        self._oracle.was_read(name, part.partition_index, position, part.high_watermark, values_of(page.records))
        self.positions[part.partition_index] = page.position


class SimMember:
    """One consumer of a group on a host of its own."""

    def __init__(
        self, world: World, broker: Brokers, oracle: Oracle, name: str, group: str, topic: tuple[str, int]
    ) -> None:
        self.name = name
        self._oracle = oracle
        self._group = group
        self._topic, self._partitions = topic
        self._chance = world.chance(f"member {name}")
        self._coordinator = broker.client(name)
        self._fetcher = broker.client(name)
        self._reader = SimReader(self._fetcher, oracle, self._topic, self._chance)
        self._member_id, self._generation = "", -1
        self._stopping = False

    def stop(self) -> None:
        """Leave the group after the current step; `run` returns then."""
        self._stopping = True

    async def run(self) -> None:
        """Consume until `stop`. Raises Violation."""
        while not self._stopping:
            try:
                await self._consume()
            except UnreachableError:
                await trio.sleep(self._chance.uniform(0.05, 0.5))
            except GroupError as error:
                await self._recover(error.error)
        self._give_up()
        await self._leave()
        self._coordinator.close()
        self._fetcher.close()

    async def _recover(self, error: ErrorCode) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if error is not ErrorCode.MEMBER_ID_REQUIRED:
            await trio.sleep(self._chance.uniform(0.02, 0.3))

    async def _ask(self, request: Message, kind: type[M], timeout_s: float = 5.0) -> M:
        answer = await self._coordinator.call(request, timeout_s)
        assert isinstance(answer, kind)
        return answer

    async def _consume(self) -> None:
        await self._find_coordinator()
        self._give_up()
        joined = await self._join()
        assigned = await self._sync(joined)
        self._oracle.was_assigned(self._member_id, self._generation, assigned)
        self._oracle.takes(self.name, assigned)
        self._reader.positions = await self._committed(assigned) if assigned else {}
        beat_at = trio.current_time() + HEARTBEAT_S
        for turn in itertools.count(1):
            if self._stopping:
                return
            await self._reader.fetch()
            if trio.current_time() >= beat_at:
                await self._heartbeat()
                beat_at = trio.current_time() + HEARTBEAT_S
            if turn % 3 == 0:
                await self._commit()
            if self._chance.random() < 0.03:
                # As a consumer whose process was paused: it may have been removed, and commits its old positions.
                await trio.sleep(self._chance.uniform(0.8, 2) * SESSION_MS / 1000)
                await self._commit()

    def _give_up(self) -> None:
        """Stop using all partitions, before it joins or leaves, or because they are lost."""
        self._oracle.releases(self.name, range(self._partitions))
        self._reader.positions = {}

    async def _find_coordinator(self) -> None:
        found = await self._ask(
            FindCoordinatorRequest(key_type=0, coordinator_keys=(self._group,)), FindCoordinatorResponse
        )
        raise_for(found.coordinators[0].error_code)

    async def _join(self) -> JoinGroupResponse:
        subscription = VERSION_PREFIX + encode(ConsumerProtocolSubscription(topics=(self._topic,)), 0)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        joined = await self._ask(request, JoinGroupResponse, 2 * REBALANCE_MS / 1000)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        raise_for(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        return joined

    async def _sync(self, joined: JoinGroupResponse) -> tuple[int, ...]:
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._assignments(joined),
        )
        synced = await self._ask(request, SyncGroupResponse, 2 * REBALANCE_MS / 1000)
        raise_for(synced.error_code)
        assignment = decode_exact(ConsumerProtocolAssignment, 0, bytes(synced.assignment)[len(VERSION_PREFIX) :])
        return assignment.assigned_partitions[0].partitions if assignment.assigned_partitions else ()

    def _assignments(self, joined: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        """Round-robin assignments; empty unless this member is the group's leader."""
        if joined.leader != self._member_id or joined.skip_assignment:
            return ()
        members = sorted(member.member_id for member in joined.members)
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member, assignment=self._assignment(range(index, self._partitions, len(members)))
            )
            for index, member in enumerate(members)
        )

    def _assignment(self, partitions: range) -> bytes:
        topic = ConsumerProtocolAssignmentTopicPartition(topic=self._topic, partitions=tuple(partitions))
        return VERSION_PREFIX + encode(ConsumerProtocolAssignment(assigned_partitions=(topic,)), 0)

    async def _committed(self, partitions: tuple[int, ...]) -> dict[int, int]:
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=partitions)
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=self._group, topics=(topic,)),))
        answer = (await self._ask(request, OffsetFetchResponse)).groups[0]
        raise_for(answer.error_code)
        positions: dict[int, int] = {}
        for part in answer.topics[0].partitions:
            raise_for(part.error_code)
            self._oracle.commit_seen(self.name, part.partition_index, part.committed_offset)
            positions[part.partition_index] = max(part.committed_offset, 0)
            self._reader.learn_leader_epoch(part.partition_index, part.committed_leader_epoch)
        return positions

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        reassigned = self._oracle.reassigned(self.name)
        raise_for((await self._ask(request, HeartbeatResponse)).error_code)
        self._oracle.heartbeat_succeeded(self.name, reassigned)

    async def _commit(self) -> None:
        """Commit all positions, which only grow within a generation."""
        if not self._reader.positions:
            return
        committed = dict(self._reader.positions)
        member = OffsetCommitRequest(
            group_id=self._group, generation_id_or_member_epoch=self._generation, member_id=self._member_id
        )
        epochs = self._reader.leader_epochs
        codes = await commit_positions(
            self._ask, self._oracle, self.name, member, self._topic, committed, epochs, REFUSALS
        )
        for code in codes:
            raise_for(code)

    async def _leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=self._member_id),))
        try:
            await self._ask(request, LeaveGroupResponse)
        except UnreachableError:
            return  # the session expires instead
