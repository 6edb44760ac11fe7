"""An administrator's client that creates and deletes topics, and records which of the requests were acknowledged."""

import trio

from odradek.gateway.testing.simulation import World
from odradek.gateway.testing.simulation.loads.client import Brokers, UnreachableError
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation, check
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse

RETRY_S = 0.3
MOST_TOPICS = 12
"""The limit of topics that exist at once; without it, a long run would slow down as topics accumulate."""
AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }
)
"""Temporary errors of administrators' requests: brokers are down, or stopped while they handled the request."""


class SimAdmin:
    """Runs until its scope is cancelled or `finish` is called; `topics` are those that must exist then."""

    def __init__(self, world: World, broker: Brokers, name: str = "operator") -> None:
        self.name = name
        self.topics: list[str] = []
        self._client = broker.client(name)
        self._replication_factor = broker.replication_factor
        self._is_one = broker.is_one
        self._chance = world.chance(f"admin {name}")
        self._count = 0
        self._finishing = False

    def finish(self) -> None:
        """Stop after the request that is under way."""
        self._finishing = True

    async def run(self) -> None:
        """Create and delete topics. Raises Violation."""
        while not self._finishing:
            await trio.sleep(self._chance.uniform(0.1, 4))
            if self.topics and (self._chance.random() < 0.4 or len(self.topics) >= MOST_TOPICS):
                await self._delete(self._chance.choice(self.topics))
            else:
                self._count += 1
                await self._create(f"temporary-{self._count}")
            if self._is_one:
                await self._look()
        self._client.close()

    async def _create(self, name: str) -> None:
        """Retry until the topic exists. After an attempt whose outcome is unknown it may exist already."""
        topic = CreatableTopic(
            name=name, num_partitions=self._chance.randint(1, 3), replication_factor=self._replication_factor
        )
        unsure = not self._is_one  # a broker that forwards a request repeats it when the answer is lost
        while True:
            error = await self._try_to_create(topic)
            if error is ErrorCode.NONE or (unsure and error is ErrorCode.TOPIC_ALREADY_EXISTS):
                self.topics.append(name)
                return
            if error is not None and error not in AGAIN:
                raise Violation(Invariant.ADMIN_ACCEPTED, f"creating {name}: {error.name}")
            unsure = True
            await trio.sleep(RETRY_S)

    async def _try_to_create(self, topic: CreatableTopic) -> ErrorCode | None:
        try:
            answer = await self._client.call(CreateTopicsRequest(topics=(topic,), timeout_ms=3000))
        except UnreachableError:
            return None
        assert isinstance(answer, CreateTopicsResponse)
        return ErrorCode(answer.topics[0].error_code)

    async def _delete(self, name: str) -> None:
        unsure = not self._is_one  # a broker that forwards a request repeats it when the answer is lost
        while True:
            error = await self._try_to_delete(name)
            if error is ErrorCode.NONE or (unsure and error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self.topics.remove(name)
                return
            if error is not None and error not in AGAIN:
                raise Violation(Invariant.ADMIN_ACCEPTED, f"deleting {name}: {error.name}")
            unsure = True
            await trio.sleep(RETRY_S)

    async def _try_to_delete(self, name: str) -> ErrorCode | None:
        try:
            answer = await self._client.call(DeleteTopicsRequest(topic_names=(name,), timeout_ms=3000))
        except UnreachableError:
            return None
        assert isinstance(answer, DeleteTopicsResponse)
        return ErrorCode(answer.responses[0].error_code)

    async def _look(self) -> None:
        """Check that Metadata shows all acknowledged changes at once."""
        try:
            answer = await self._client.call(MetadataRequest(topics=None))
        except UnreachableError:
            return
        assert isinstance(answer, MetadataResponse)
        found = sorted(topic.name or "" for topic in answer.topics if (topic.name or "").startswith("temporary-"))
        check(
            found == sorted(self.topics),
            Invariant.TOPICS_KEPT,
            f"metadata lists {found}, acknowledged were {sorted(self.topics)}",
        )
