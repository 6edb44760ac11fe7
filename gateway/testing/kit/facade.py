"""The methods that a test's broker and a test's cluster share.

They run functions of the kit, which they import at first use, with access to the broker or the cluster.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

from odradek.gateway.testing.kit.threads import in_thread

if TYPE_CHECKING:
    from odradek.gateway.testing.kit.access import Access
    from odradek.gateway.testing.kit.expecting import Search
    from odradek.gateway.testing.kit.producing import Placing
    from odradek.gateway.testing.kit.reading import TopicReader
    from odradek.gateway.testing.kit.topics import Topics
    from odradek.gateway.testing.kit.values import (
        CommittedOffset,
        Data,
        Headers,
        Isolation,
        NewRecord,
        Record,
        TopicPartition,
    )

P = ParamSpec("P")
T = TypeVar("T")

CALL_TIMEOUT_S: Final = 30.0
WITHIN_S: Final = 5.0


class _Anything:
    """The default of what an assertion compares: nothing. None means a null key or value."""

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Final = _Anything()


class TestKafka(ABC):
    """A Kafka that a test looks into and writes to, without a client of its own.

    All methods wait for their result, and raise RuntimeError if the broker does not run, and TimeoutError if there is
    no result for 30 s, as when a partition has no leader. `aio` has the same methods for asyncio and Trio.
    """

    __test__ = False  # pytest collects classes whose names begin with Test

    @abstractmethod
    def with_access(self, function: "Callable[[Access], Awaitable[T]]", timeout_s: float) -> T:
        """The result of a function of the kit. Raises what it raises, and TimeoutError."""

    @cached_property
    def aio(self) -> "AsyncTestKafka":
        """The same methods as coroutine functions, which do not block the event loop."""
        return AsyncTestKafka(self)

    # Records

    def records(
        self,
        topic: str,
        *,
        partition: int | None = None,
        from_offset: int | None = None,
        isolation: "Isolation" = "read_committed",
    ) -> "list[Record]":
        """The records of a topic, or of one partition, ordered by partition and then by offset.

        They are what a consumer gets that starts at the beginning, or at `from_offset`: of transactions only those that
        are committed (unless `isolation` is "read_uncommitted"), without markers, decompressed. Raises
        UnknownTopicError (a LookupError) naming similar topics, LookupError if there is no such partition.
        """
        from odradek.gateway.testing.kit.reading import TopicReader

        reader = TopicReader(topic, isolation, partition, from_offset)
        return self.with_access(reader.read, CALL_TIMEOUT_S)

    @overload
    def assert_produced(
        self,
        topic: str,
        *,
        key: object = ANYTHING,
        value: object = ANYTHING,
        headers: object = ANYTHING,
        partition: int | None = None,
        within: float = WITHIN_S,
        count: None = None,
    ) -> "Record": ...
    @overload
    def assert_produced(
        self,
        topic: str,
        *,
        key: object = ANYTHING,
        value: object = ANYTHING,
        headers: object = ANYTHING,
        partition: int | None = None,
        within: float = WITHIN_S,
        count: int,
    ) -> "list[Record]": ...
    def assert_produced(
        self,
        topic: str,
        *,
        key: object = ANYTHING,
        value: object = ANYTHING,
        headers: object = ANYTHING,
        partition: int | None = None,
        within: float = WITHIN_S,
        count: int | None = None,
    ) -> "Record | list[Record]":
        """Wait until a committed record matches, and return the first one; with `count`, all of exactly that many.

        `key` and `value` are bytes, text (UTF-8), None for null, a predicate of the bytes, or an object that is
        compared by `==` (or by its `matches`, as PyHamcrest's). `headers` is a mapping of headers that must be among
        the record's, or a list of all of them. What is not given is not compared. Records that are there already count.
        The topic may be created meanwhile.

        Raises AssertionError after `within` seconds, with the records that come nearest; at once if more than `count`
        match.
        """
        search = self._search(topic, key, value, headers, partition, count)
        self._await_records(search, topic, partition, within)
        return search.found[0] if count is None else search.found

    def assert_not_produced(
        self,
        topic: str,
        *,
        key: object = ANYTHING,
        value: object = ANYTHING,
        headers: object = ANYTHING,
        partition: int | None = None,
        during: float = 0.0,
    ) -> None:
        """Assert that no committed record matches now, nor any that is produced during the next `during` seconds.

        It cannot know what comes later: wait first for something that the code under test does after it would have
        produced. Raises AssertionError with the record, UnknownTopicError if there is no topic to look into.
        """
        from odradek.gateway.testing.kit.expecting import Deadline, refuse

        search, deadline = self._search(topic, key, value, headers, partition, None), Deadline(during)
        reader = self._reader(topic, partition)
        refuse(search, self.with_access(reader.read, CALL_TIMEOUT_S))
        while deadline.left_s:
            try:
                refuse(search, self.with_access(reader.read_more, deadline.left_s))
            except TimeoutError:
                return

    @staticmethod
    def _search(
        topic: str, key: object, value: object, headers: object, partition: int | None, count: int | None
    ) -> "Search":
        from odradek.gateway.testing.kit.expecting import Expectation, Search

        expected = {"key": key, "value": value, "headers": headers}
        given = {name: each for name, each in expected.items() if each is not ANYTHING}
        return Search(topic, Expectation(given, partition), count)

    @staticmethod
    def _reader(topic: str, partition: int | None) -> "TopicReader":
        from odradek.gateway.testing.kit.reading import TopicReader

        return TopicReader(topic, "read_committed", partition)

    def _await_records(self, search: "Search", topic: str, partition: int | None, within: float) -> None:
        from odradek.gateway.testing.kit.errors import UnknownTopicError
        from odradek.gateway.testing.kit.expecting import Deadline

        deadline, reader, note = Deadline(within), self._reader(topic, partition), ""
        try:
            if search.take(self.with_access(reader.read, CALL_TIMEOUT_S)):
                return
        except UnknownTopicError as error:
            note = str(error)
        while deadline.left_s:
            try:
                if search.take(self.with_access(reader.read_more, deadline.left_s)):
                    return
            except TimeoutError:
                break
        raise AssertionError(search.failure(deadline.waited_s, self._note(topic, note if not search.seen else "")))

    def _note(self, topic: str, note: str) -> str:
        """What else explains that there is no record."""
        from odradek.gateway.testing.kit.reading import open_offsets

        count = self.with_access(partial(open_offsets, name=topic), CALL_TIMEOUT_S)
        return f"{count} offsets are of open transactions, which are not committed" if count else note

    def produce(
        self,
        topic: str,
        value: "Data",
        *,
        key: "Data" = None,
        headers: "Headers | None" = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "Record":
        """Write one record with acks=all, and return it with its partition and offset; text is encoded as UTF-8.

        Without `partition`, a key is placed as Kafka's producers do (murmur2), and records without a key take the
        partitions in turn. Without `timestamp_ms` it is the broker's present time. A topic that does not exist is
        created if `auto.create.topics.enable` allows it. Raises KitError with Kafka's reason if the record is refused,
        LookupError if there is no such topic or partition.
        """
        new: NewRecord = {"value": value, "key": key}
        if headers is not None:
            new["headers"] = headers
        if partition is not None:
            new["partition"] = partition
        if timestamp_ms is not None:
            new["timestamp_ms"] = timestamp_ms
        [record] = self.produce_all(topic, [new])
        return record

    def produce_all(self, topic: str, records: "Iterable[Data | NewRecord]") -> "list[Record]":
        """Write many records, in batches, and return them in the same order.

        Each is a value, or a dictionary of the arguments of `produce`. Raises as `produce` does; the records before the
        refused one may be stored.
        """
        from odradek.gateway.testing.kit.producing import produce

        new = list(records)
        return self.with_access(lambda access: produce(access, topic, new, self._placing), CALL_TIMEOUT_S)

    @cached_property
    def _placing(self) -> "Placing":
        from odradek.gateway.testing.kit.producing import Placing

        return Placing()

    # Groups

    def committed(self, group: str) -> "dict[TopicPartition, CommittedOffset]":
        """The offsets that a consumer group has committed; each is an int with `metadata`. Empty for an unknown group.

        The keys are equal to tuples: `kafka.committed("billing") == {("orders", 0): 3}`.
        """
        from odradek.gateway.testing.kit.groups import committed

        return self.with_access(partial(committed, group=group), CALL_TIMEOUT_S)

    def lag(self, group: str) -> "dict[TopicPartition, int]":
        """For each partition, the number of offsets between the group's committed offset and the end.

        A partition that is assigned to a member and has no committed offset counts from its first record. As in Kafka's
        tools, a transaction's marker is an offset, too. Raises UnknownGroupError (a LookupError) for a group that has
        neither a member nor an offset.
        """
        from odradek.gateway.testing.kit.groups import lag

        return self.with_access(partial(lag, group=group), CALL_TIMEOUT_S)

    def assert_caught_up(self, group: str, *, within: float = WITHIN_S) -> None:
        """Wait until the group has committed the end of each of its partitions. Raises AssertionError with its lag."""
        from odradek.gateway.testing.kit.expecting import Deadline
        from odradek.gateway.testing.kit.groups import CatchingUp, lag_text

        deadline, catching_up = Deadline(within), CatchingUp(group)
        while True:
            lag = self.with_access(catching_up.look, CALL_TIMEOUT_S)
            if lag is not None and not any(lag.values()):
                return
            try:
                self.with_access(catching_up.change, deadline.left_s)
            except TimeoutError:
                raise AssertionError(lag_text(group, lag, deadline.waited_s)) from None

    # Topics

    def create_topics(self, topics: "Topics") -> None:
        """Create topics, given the number of partitions or a dictionary of `partitions` and `configs` for each name.

        Returns when clients can use them. Raises KitError with the broker's reason, ConfigError for a value of a wrong
        type, TypeError for an unknown option.
        """
        from odradek.gateway.testing.kit.topics import create_topics, new_topics

        wanted = new_topics(topics)
        self.with_access(lambda access: create_topics(access, wanted), CALL_TIMEOUT_S)

    # Producers

    def fence_producer(self, transactional_id: str) -> None:
        """Fence the producer of a transactional id, and abort its transaction, as a second producer would.

        Raises LookupError if no producer has used the id.
        """
        from odradek.gateway.testing.kit.fencing import fence_producer

        self.with_access(lambda access: fence_producer(access, transactional_id), CALL_TIMEOUT_S)


def awaited(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine function that runs `call` in a worker thread of the caller's event loop."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(partial(call, *args, **kwargs))

    return run


class AsyncTestKafka:
    """The methods of `TestKafka` for tests of asyncio and Trio: they do not block the event loop.

    A caller that is cancelled does not wait; what it has begun may still happen.
    """

    def __init__(self, kafka: TestKafka) -> None:
        self.records = awaited(kafka.records)
        self.assert_produced = awaited(kafka.assert_produced)
        self.assert_not_produced = awaited(kafka.assert_not_produced)
        self.produce = awaited(kafka.produce)
        self.produce_all = awaited(kafka.produce_all)
        self.committed = awaited(kafka.committed)
        self.lag = awaited(kafka.lag)
        self.assert_caught_up = awaited(kafka.assert_caught_up)
        self.create_topics = awaited(kafka.create_topics)
        self.fence_producer = awaited(kafka.fence_producer)
