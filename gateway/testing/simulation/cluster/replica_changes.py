"""An operator's requests for reassignments and elections during load and faults.

A reassignment requests other brokers, another order or another number of replicas for some partitions (KIP-455), also
of internal topics, whose coordinators move with them. Some are cancelled, or replaced by another, while they are under
way. Elections are of preferred leaders; unclean ones (KIP-460) may lose committed records, so they are requested only
for topics that no client writes to.

Requests are sent one at a time. One without an answer may take effect at any later time, so once faults are over and
no request can still be in transit, the target of each partition that had such a request is requested again.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import trio

from odradek.gateway.testing.simulation.cluster.access import ClusterAccess
from odradek.gateway.testing.simulation.cluster.assignments import Assignments, Place
from odradek.gateway.testing.simulation.cluster.invariants import Invariants
from odradek.gateway.testing.simulation.environment import World
from odradek.gateway.testing.simulation.loads.client import UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, check
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

HOST: Final = "replica operator"
FEWEST: Final = 2
"""The same as `min.insync.replicas`, so that acknowledged records are on two disks."""
MOST_AT_ONCE: Final = 4
RETRY_S: Final = 0.3
UNUSED: Final = "temporary-"
"""The prefix of the names of topics that no client writes to."""
QUIET_S: Final = 40.0
"""Longer than a broker retries to forward a request to the controller."""
PREFERRED, UNCLEAN = 0, 1
_VERSIONS: Final = {ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1, ApiKey.ELECT_LEADERS: 2}
_REASSIGNED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_TAKEN_BACK: Final = _REASSIGNED | {ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT}
_ELECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)

Target = tuple[int, ...] | None
"""The replicas that are requested; None cancels a reassignment."""


class Named(NamedTuple):
    """A partition with the name of its topic."""

    topic: str
    place: Place


class ReplicaChanges:
    """Changes which of the `brokers` have replicas of a partition, and which of them leads it."""

    def __init__(
        self,
        world: World,
        access: ClusterAccess,
        invariants: Invariants,
        assignments: Assignments,
        brokers: Sequence[int],
    ) -> None:
        self._world = world
        self._client = access.client(HOST, _VERSIONS)
        self._invariants = invariants
        self._assignments = assignments
        self._brokers = brokers
        self._most = access.replication_factor
        self._chance = world.chance("replica changes")
        self._cancels = self._chance.choice((0.1, 0.4))
        self._turn = trio.Lock()
        self._wanted: dict[Named, Target] = {}
        self._unsure: dict[Named, None] = {}

    # While faults occur

    async def reassign(self) -> None:
        """Request other replicas for some partitions, once or three times in quick succession. Raises Violation."""
        for _ in range(self._chance.choice((1, 1, 3))):
            await self._reassign()
            await trio.sleep(self._chance.uniform(0, 1))

    async def _reassign(self) -> None:
        """Request new targets, and cancel some reassignments that are under way."""
        async with self._turn:
            targets: dict[Named, Target] = {each: self._target() for each in self._choose(unclean=False)}
            changing = [each for each in self._named() if self._assignments.is_changing(each.place)]
            targets |= dict.fromkeys(each for each in changing if self._chance.random() < self._cancels)
            if targets:
                await self._request(targets)

    async def elect(self) -> None:
        """Request elections of preferred leaders, or unclean ones for unused topics. Raises Violation."""
        kind = UNCLEAN if self._chance.random() < 0.3 else PREFERRED
        chosen = self._choose(unclean=kind == UNCLEAN)
        topics = tuple(TopicPartitions(topic=each.topic, partitions=(each.place.number,)) for each in chosen)
        wanted = None if kind == PREFERRED and self._chance.random() < 0.3 else topics
        if wanted == ():
            return
        async with self._turn:
            try:
                answer = await self._client.call(ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
            except UnreachableError:
                return
        assert isinstance(answer, ElectLeadersResponse)
        codes = [
            ErrorCode(part.error_code) for each in answer.replica_election_results for part in each.partition_result
        ]
        refused = [code.name for code in (ErrorCode(answer.error_code), *codes) if code not in _ELECTED]
        check(not refused, Invariant.ADMIN_ACCEPTED, f"electing leaders: {refused}")
        self._world.record(HOST, f"elected {codes.count(ErrorCode.NONE)} of {len(codes)}")

    def _named(self) -> list[Named]:
        image = self._invariants.image
        return [
            Named(name, Place(topic.topic_id, index))
            for name, topic in sorted({} if image is None else image.topics_by_name.items())
            for index in range(len(topic.partitions))
        ]

    def _choose(self, *, unclean: bool) -> list[Named]:
        found = [each for each in self._named() if not unclean or each.topic.startswith(UNUSED)]
        return self._chance.sample(found, min(self._chance.randint(1, MOST_AT_ONCE), len(found)))

    def _target(self) -> tuple[int, ...]:
        number = self._most if self._chance.random() < 0.75 else self._chance.randint(FEWEST, self._most)
        return tuple(self._chance.sample(self._brokers, number))

    # Requests

    async def _request(self, targets: Mapping[Named, Target]) -> bool:
        """Send one request; return True if it was answered. Without an answer it may take effect. Raises Violation."""
        topics = tuple(
            ReassignableTopic(
                name=each.topic, partitions=(ReassignablePartition(partition_index=each.place.number, replicas=target),)
            )
            for each, target in targets.items()
        )
        for each, target in targets.items():
            self._wanted[each] = target
            self._assignments.will_request(each.place, target)
        unsure = self._unsure.copy()
        self._unsure.update(dict.fromkeys(targets))
        try:
            answer = await self._client.call(AlterPartitionReassignmentsRequest(topics=topics))
        except UnreachableError:
            return False
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        self._unsure = unsure
        check(not answer.error_code, Invariant.ADMIN_ACCEPTED, f"reassigning: {answer.error_code}")
        for (each, target), response in zip(targets.items(), answer.responses, strict=True):
            self._answered(each, target, ErrorCode(response.partitions[0].error_code))
        return True

    def _answered(self, named: Named, target: Target, error: ErrorCode) -> None:
        self._world.record(HOST, f"{named.topic}-{named.place.number} to {target}: {error.name}")
        expected = _TAKEN_BACK if target is None else _REASSIGNED
        check(error in expected, Invariant.ADMIN_ACCEPTED, f"reassigning {named} to {target}: {error.name}")
        if error is not ErrorCode.NONE:
            self._wanted.pop(named, None)
        elif target is not None:
            self._invariants.look_at_all()
            self._assignments.was_accepted(named.place, target)

    # Once faults are over

    async def finish(self) -> None:
        """Send the requests without an answer again, until they are answered. Raises Violation."""
        if self._unsure:
            await trio.sleep(QUIET_S)
        unsure = list(self._unsure)
        self._unsure.clear()
        while (again := self._repeated(unsure)) and not await self._request(again):  # noqa: ASYNC110 - over a network
            await trio.sleep(RETRY_S)
        self._client.close()

    def _repeated(self, unsure: Sequence[Named]) -> dict[Named, Target]:
        """The requests to send again. Requests name topics: a topic created since under the same name gets none."""
        self._invariants.look_at_all()
        existing = set(self._named())
        return {each: self._wanted[each] for each in unsure if each in existing and each in self._wanted}

    def judge(self) -> None:
        """Check that all reassignments have ended with the requested replicas. Raises Violation."""
        self._assignments.check_ended()
        for named, target in self._wanted.items():
            if target is not None:
                self._assignments.check_is(named.place, target)
