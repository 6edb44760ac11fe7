"""A member of a consumer group of the new protocol (KIP-848), which gets its assignment in heartbeat responses.

Like Kafka's consumer it commits its position in a partition before it revokes the partition, and reports what it owns
whenever that has changed or an answer was lost.
"""

from typing import TypeVar
from uuid import UUID

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.commits import commit_positions
from odradek.gateway.testing.simulation.loads.member import HEARTBEAT_S, SESSION_MS, SimReader
from odradek.gateway.testing.simulation.loads.oracle import EpochOracle, Invariant, Violation, check
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.offset_commit import OffsetCommitRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

VERSIONS = {ApiKey.CONSUMER_GROUP_HEARTBEAT: 1, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
REBALANCE_MS = 6000
JOINS, LEAVES = 0, -1
"""The member epochs of a heartbeat that joins or leaves the group."""

AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
EXPELLED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""GROUP_ID_NOT_FOUND: the member was removed while only classic members were left, so the group is a classic one."""
REFUSALS = EXPELLED | {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors after which a commit certainly has no effect."""


class NotNowError(Exception):
    """A temporary error of the coordinator, or a fetch that failed; the request is sent again."""


class ExpelledError(Exception):
    """The coordinator has removed the member, or has it in another epoch."""


def raise_for(code: int) -> None:
    """Raise NotNowError, ExpelledError or Violation for an error code."""
    error = ErrorCode(code)
    if error in EXPELLED:
        raise ExpelledError(error.name)
    if error in AGAIN or error is ErrorCode.STALE_MEMBER_EPOCH:
        raise NotNowError(error.name)
    check(error is ErrorCode.NONE, Invariant.MEMBERS_KEPT, f"a member was told {error.name}")


class EpochMember:
    """One consumer of a group, on a host of its own. After it has left, or simulated a crash, it uses a new id."""

    def __init__(
        self, world: World, broker: Brokers, oracle: EpochOracle, name: str, group: str, topic: tuple[str, int]
    ) -> None:
        self.name = name
        self.deaths = self.pauses = 0
        self._oracle = oracle
        self._group = group
        self._topic, self._partitions = topic
        self._chance = world.chance(f"epoch member {name}")
        self._coordinator = broker.client(name, VERSIONS)
        self._fetcher = broker.client(name)
        self._reader = SimReader(self._fetcher, oracle, self._topic, self._chance)
        self._topic_id = UUID(int=0)
        self._member_id, self._epoch = "", JOINS
        self._says_all = True
        self._stopping = False

    def stop(self) -> None:
        """Leave the group after the current step; `run` returns then."""
        self._stopping = True

    async def run(self, topic_id: UUID) -> None:
        """Consume until `stop`. Raises Violation."""
        self._topic_id = topic_id
        while not self._stopping:
            self._member_id = f"{self.name}-{self._coordinator.env.uuid()}"
            self._oracle.joins_as(self.name, self._member_id)
            await self._live()
            if self._stopping or self._chance.random() < 0.5:
                await self._leave()
            else:
                self.deaths += 1  # it does not leave, so its session expires
            self._lose()
            if not self._stopping:
                await trio.sleep(self._chance.uniform(0, 3))
        self._coordinator.close()
        self._fetcher.close()

    async def _live(self) -> None:
        """Take part in the group under one member id, until `stop` or a random end."""
        while not self._stopping and self._chance.random() > 0.01:
            try:
                await self._step()
            except ExpelledError:
                self._oracle.was_removed(self._member_id)
                self._lose()
            except (UnreachableError, NotNowError):
                self._says_all = True
                await trio.sleep(self._chance.uniform(0.05, 0.3))

    def _lose(self) -> None:
        self._oracle.releases(self.name, range(self._partitions))
        self._reader.positions = {}
        self._epoch, self._says_all = JOINS, True

    async def _step(self) -> None:
        if self._epoch == JOINS:
            await self._find_coordinator()
        await self._heartbeat()
        beat_at = trio.current_time() + HEARTBEAT_S
        while trio.current_time() < beat_at and not self._stopping:
            await self._read()
            if self._chance.random() < 0.3:
                await self._commit(dict(self._reader.positions))
        if self._chance.random() < 0.03:
            # As a consumer whose process was paused: it may have been removed, and commits its old positions.
            self.pauses += 1
            await trio.sleep(self._chance.uniform(0.8, 2) * SESSION_MS / 1000)
            await self._commit(dict(self._reader.positions))

    async def _read(self) -> None:
        try:
            await self._reader.fetch()
        except Violation:
            raise
        except Exception as error:  # any other failure is retried
            raise NotNowError from error

    async def _ask(self, request: Message, kind: type[M]) -> M:
        answer = await self._coordinator.call(request)
        assert isinstance(answer, kind)
        return answer

    async def _find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(self._group,))
        raise_for((await self._ask(request, FindCoordinatorResponse)).coordinators[0].error_code)

    # Membership

    async def _heartbeat(self) -> None:
        joins, owned = self._epoch == JOINS, sorted(self._reader.positions)
        whole = joins or self._says_all
        partitions = (TopicPartitions(topic_id=self._topic_id, partitions=tuple(owned)),) if owned else ()
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_MS if whole else -1,
            subscribed_topic_names=(self._topic,) if whole else None,
            topic_partitions=partitions if whole else None,
        )
        reassigned = self._oracle.reassigned(self.name)
        answer = await self._ask(request, ConsumerGroupHeartbeatResponse)
        raise_for(answer.error_code)
        self._oracle.heartbeat_succeeded(self.name, reassigned)
        check(
            answer.member_epoch >= self._epoch,
            Invariant.GENERATIONS_GROW,
            f"{self.name} went from member epoch {self._epoch} back to {answer.member_epoch}",
        )
        self._epoch, self._says_all = answer.member_epoch, False
        if answer.assignment is not None:
            given = {index for each in answer.assignment.topic_partitions for index in each.partitions}
            await self._reconcile(given)

    async def _reconcile(self, given: set[int]) -> None:
        """Revoke partitions that are no longer assigned, and take new ones."""
        positions = self._reader.positions
        surplus, missing = sorted(positions.keys() - given), sorted(given - positions.keys())
        self._says_all = bool(surplus or missing)
        self._oracle.was_assigned(self._member_id, self._epoch, sorted(given))
        self._oracle.takes(self.name, missing)
        try:
            if surplus:
                await self._commit({partition: positions[partition] for partition in surplus})
        finally:
            self._oracle.releases(self.name, surplus)
            self._reader.positions = {each: at for each, at in positions.items() if each not in surplus}
        if missing:
            self._reader.positions.update(await self._committed(missing))

    async def _leave(self) -> None:
        self._oracle.releases(self.name, range(self._partitions))
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self._member_id, member_epoch=LEAVES)
        try:
            await self._ask(request, ConsumerGroupHeartbeatResponse)
        except UnreachableError:
            return  # the session expires instead

    # Offsets

    async def _committed(self, partitions: list[int]) -> dict[int, int]:
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=tuple(partitions))
        group = OffsetFetchRequestGroup(
            group_id=self._group, member_id=self._member_id, member_epoch=self._epoch, topics=(topic,)
        )
        while True:
            try:
                answer = (await self._ask(OffsetFetchRequest(groups=(group,)), OffsetFetchResponse)).groups[0]
                raise_for(answer.error_code)
                break
            except (UnreachableError, NotNowError):
                await trio.sleep(self._chance.uniform(0.05, 0.3))
        found: dict[int, int] = {}
        for part in answer.topics[0].partitions:
            self._oracle.commit_seen(self.name, part.partition_index, part.committed_offset)
            found[part.partition_index] = max(part.committed_offset, 0)
            self._reader.learn_leader_epoch(part.partition_index, part.committed_leader_epoch)
        return found

    async def _commit(self, positions: dict[int, int]) -> None:
        if not positions:
            return
        member = OffsetCommitRequest(
            group_id=self._group, generation_id_or_member_epoch=self._epoch, member_id=self._member_id
        )
        epochs = self._reader.leader_epochs
        codes = await commit_positions(
            self._ask, self._oracle, self.name, member, self._topic, positions, epochs, REFUSALS
        )
        for code in codes:
            raise_for(code)
