"""Fetch sessions (KIP-227): the broker keeps what a reader fetches, and the reader sends only what changed.

Theory of operation
-------------------
A *full* fetch names every partition. Unless its epoch is the final one, it may create a session, whose id is in the
response. An *incremental* fetch carries that id and the next epoch; it names new and changed partitions and those to
forget, and the response omits partitions that have not changed:

    full, epoch 0 ──► session, epoch 1 ──incremental, epoch n──► session, epoch n + 1
                          │ a full fetch with its id, no partitions left, evicted
                          ▼
                        gone: FETCH_SESSION_ID_NOT_FOUND, and the reader restarts with a full fetch

The epoch detects lost requests and responses: a request with an unexpected epoch is refused, and the reader restarts
with a full fetch. Partitions that returned records move to the end of the session's order, so that the others come
first the next time if the byte limit does not suffice for all.

A session identifies topics either by id (version 13 and later) or by name (earlier versions) for its whole lifetime. A
partition identified by id keeps that id: a topic that was deleted and created again is a different one.

The cache has a fixed number of slots. When all are in use, a session that has been unused for `EVICTION_MS` is evicted.
If there is none, and the new session is more valuable (a follower's before a consumer's, then by number of partitions),
the least valuable of those older than `EVICTION_MS` is evicted; a follower's session may also evict a consumer's
younger one. Otherwise no session is created, and the reader continues with full fetches.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LAST_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
"""The age at which any session may be evicted, and how long it may be unused. Kafka's value, not configurable there."""
TOPIC_IDS_SINCE: Final = 13
"""From this version on a fetch identifies topics by id."""

TopicPartition = tuple[UUID | str, int]
"""A partition as the reader identifies it: by topic id, or before version 13 by topic name."""


class Wanted:
    """One partition of a fetch: what was last requested, and what was last returned.

    `topic` is None while no topic with the requested id is known.
    """

    __slots__ = ("asked", "high_watermark", "log_start_offset", "topic", "topic_id")

    def __init__(self, topic: str | None, topic_id: UUID, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.asked = asked
        self.high_watermark: int = -1
        self.log_start_offset: int = -1

    def note(self, data: PartitionData) -> bool:
        """Record what a response contains; returns True if any of it is new to the reader."""
        has_error = data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0
        changed = (
            has_error
            or bool(data.records)
            or data.preferred_read_replica >= 0  # until the reader goes there, it is answered at once each time
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
        )
        # The end of an error is always new, whatever the partition then returns.
        self.high_watermark = -1 if has_error else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return changed


Answers = Sequence[tuple[Wanted, PartitionData]]
Names = Callable[[UUID], str | None]
"""Returns the current name of the topic with an id, None when there is none."""


class EvictionKey(NamedTuple):
    """The value of a session; the smallest is evicted first."""

    privileged: bool
    partitions: int
    session_id: int


class FetchSession:
    """The partitions that one reader fetches, and the epoch of its next fetch."""

    __slots__ = ("created_ms", "epoch", "evictable_by", "id", "key", "last_used_ms", "partitions", "uses_topic_ids")

    def __init__(
        self, key: EvictionKey, partitions: dict[TopicPartition, Wanted], uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.id = key.session_id
        self.key = key
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH + 1
        self.created_ms = self.last_used_ms = now_ms
        self.evictable_by: tuple[bool, bool] = (False, False)
        """Whether it may be evicted by (any new session, a follower's session)."""

    def update(self, changed: dict[TopicPartition, Wanted], forgotten: Iterable[TopicPartition]) -> None:
        """Apply the changes of an incremental fetch; a changed partition keeps its position in the order.

        The next answer to a follower contains each partition that the fetch names.
        """
        for partition, wanted in changed.items():
            known = self.partitions.get(partition)
            if known is None:
                self.partitions[partition] = wanted
            else:
                known.asked = wanted.asked
                if self.key.privileged:
                    # The follower may have dropped the last answer, because its position had changed meanwhile.
                    known.high_watermark = -1
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def to_the_end(self, partition: TopicPartition) -> None:
        """Move the partition to the end of the order."""
        wanted = self.partitions.pop(partition, None)
        if wanted is not None:
            self.partitions[partition] = wanted


class Fetch:
    """One fetch between request and response.

    `wanted` is in the order in which to read. With an `error` there is nothing to read, and the response is that error.
    """

    __slots__ = ("_sessions", "error", "wanted")

    def __init__(self, sessions: "FetchSessions", wanted: Sequence[Wanted], error: ErrorCode = ErrorCode.NONE) -> None:
        self._sessions = sessions
        self.wanted = wanted
        self.error = error

    def answer(self, answers: Answers, now_ms: int) -> FetchResponse:
        """Build the response from what was read for each wanted partition. Here: all of it, without a session."""
        if self.error:
            return FetchResponse(error_code=self.error)
        return FetchResponse(responses=grouped(answers))


class _FullFetch(Fetch):
    """A full fetch that may begin a session."""

    __slots__ = ("_by_id", "_privileged")

    def __init__(self, sessions: "FetchSessions", wanted: Sequence[Wanted], by_id: bool, *, privileged: bool) -> None:
        super().__init__(sessions, wanted)
        self._by_id = by_id
        self._privileged = privileged

    def answer(self, answers: Answers, now_ms: int) -> FetchResponse:
        """Returns everything, with the id of the new session if one could be created."""
        session_id = self._sessions.create(answers, self._by_id, now_ms, privileged=self._privileged)
        return FetchResponse(session_id=session_id, responses=grouped(answers))


class _IncrementalFetch(Fetch):
    """A fetch in a session."""

    __slots__ = ("_expected_epoch", "_session")

    def __init__(self, sessions: "FetchSessions", session: FetchSession) -> None:
        super().__init__(sessions, list(session.partitions.values()))
        self._session = session
        self._expected_epoch = session.epoch

    def answer(self, answers: Answers, now_ms: int) -> FetchResponse:
        """Returns what has changed; an error if another fetch of the session has arrived since this one was opened."""
        session = self._session
        if session.epoch != self._expected_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        changed: list[tuple[Wanted, PartitionData]] = []
        for wanted, data in answers:
            if wanted.note(data):
                changed.append((wanted, data))
                if data.records:
                    session.to_the_end(_partition_of(wanted, session.uses_topic_ids))
        return FetchResponse(session_id=session.id, responses=grouped(changed))


class FetchSessions:
    """The sessions of one broker: at most `slots`, each of at most `max_partitions`.

    `new_id` returns random positive 32-bit numbers, so that ids of other readers' sessions cannot be guessed.
    """

    def __init__(self, slots: int, new_id: Callable[[], int], max_partitions: int) -> None:
        self._slots = slots
        self._new_id = new_id
        self._max_partitions = max_partitions
        self._sessions: dict[int, FetchSession] = {}
        """By id, the least recently used first."""
        self._evictable: tuple[list[EvictionKey], list[EvictionKey]] = ([], [])
        """The sessions that may be evicted by (any new session, a follower's session), the least valuable first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def partitions_of(self, session_id: int) -> tuple[Wanted, ...]:
        """The partitions of a session, in its order; none if there is no such session."""
        session = self._sessions.get(session_id)
        return () if session is None else tuple(session.partitions.values())

    def open(self, request: FetchRequest, api_version: int, name_of: Names, now_ms: int) -> Fetch:
        """Process a request. The caller reads `wanted`, then calls `answer` for the response."""
        by_id = api_version >= TOPIC_IDS_SINCE
        named = _named(request, by_id, name_of)
        epoch = request.session_epoch
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._incremental(request, by_id, named, name_of, now_ms)
        if request.session_id != NO_SESSION:
            self._remove(request.session_id)
        wanted = tuple(named.values())
        if epoch == FINAL_EPOCH:
            return Fetch(self, wanted)
        return _FullFetch(self, wanted, by_id, privileged=replica_id_of(request) >= 0)

    def _incremental(
        self, request: FetchRequest, by_id: bool, named: dict[TopicPartition, Wanted], name_of: Names, now_ms: int
    ) -> Fetch:
        session = self._sessions.get(request.session_id)
        if session is None:
            return Fetch(self, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Fetch(self, (), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            return Fetch(self, (), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(named, _forgotten(request, by_id))
        if len(session.partitions) > self._max_partitions:
            self._remove(session.id)  # the reader restarts with full fetches, without a session
            return Fetch(self, (), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self._remove(session.id)
            return Fetch(self, tuple(named.values()))
        self._touch(session, now_ms)
        session.epoch = session.epoch + 1 if session.epoch < LAST_EPOCH else INITIAL_EPOCH + 1
        if by_id:
            for wanted in session.partitions.values():
                wanted.topic = wanted.topic or name_of(wanted.topic_id)
        return _IncrementalFetch(self, session)

    # The cache

    def create(self, answers: Answers, uses_topic_ids: bool, now_ms: int, *, privileged: bool = False) -> int:
        """Create a session with the partitions just returned, in that order; returns 0 when there is no room for it.

        `privileged` is True for followers.
        """
        size = len(answers)
        if size > self._max_partitions or not self._has_room(EvictionKey(privileged, size, NO_SESSION), now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        partitions: dict[TopicPartition, Wanted] = {}
        for wanted, data in answers:
            wanted.note(data)
            partitions[_partition_of(wanted, uses_topic_ids)] = wanted
        session = FetchSession(EvictionKey(privileged, size, session_id), partitions, uses_topic_ids, now_ms)
        self._touch(session, now_ms)
        return session_id

    def _has_room(self, newcomer: EvictionKey, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._remove(oldest.id)
            return True
        evictable = self._evictable[newcomer.privileged]
        if not evictable or newcomer < evictable[0]:
            return False
        self._remove(evictable[0].session_id)
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        session.last_used_ms = now_ms
        aged = now_ms - session.created_ms > EVICTION_MS
        key = session.key._replace(partitions=len(session.partitions))
        evictable_by = (aged, aged or not key.privileged)
        if (key, evictable_by) != (session.key, session.evictable_by):
            self._withdraw(session)
            session.key, session.evictable_by = key, evictable_by
            for keys, applies in zip(self._evictable, evictable_by, strict=True):
                if applies:
                    insort(keys, key)

    def _withdraw(self, session: FetchSession) -> None:
        for keys, applies in zip(self._evictable, session.evictable_by, strict=True):
            if applies:
                del keys[bisect_left(keys, session.key)]

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._withdraw(session)


def replica_id_of(request: FetchRequest) -> int:
    """Returns the broker id of a follower, below 0 for any other client. Version 15 has moved the field."""
    return request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id


def _partition_of(wanted: Wanted, by_id: bool) -> TopicPartition:
    return (wanted.topic_id if by_id else wanted.topic or "", wanted.asked.partition)


def _named(request: FetchRequest, by_id: bool, name_of: Names) -> dict[TopicPartition, Wanted]:
    """Returns the partitions that a request names, in its order; of a partition named twice, the last one counts."""
    named: dict[TopicPartition, Wanted] = {}
    for topic in request.topics:
        name = name_of(topic.topic_id) if by_id else topic.topic
        key = topic.topic_id if by_id else topic.topic
        for part in topic.partitions:
            named[key, part.partition] = Wanted(name, topic.topic_id, part)
    return named


def _forgotten(request: FetchRequest, by_id: bool) -> Iterable[TopicPartition]:
    for topic in request.forgotten_topics_data:
        key = topic.topic_id if by_id else topic.topic
        for index in topic.partitions:
            yield key, index


def grouped(answers: Answers) -> tuple[FetchableTopicResponse, ...]:
    """Group adjacent partitions of one topic, as the response has them."""
    topics: list[FetchableTopicResponse] = []
    last: Wanted | None = None
    parts: list[PartitionData] = []
    for wanted, data in answers:
        if last is not None and not _same_topic(last, wanted):
            topics.append(_topic(last, parts))
            parts = []
        parts.append(data)
        last = wanted
    if last is not None:
        topics.append(_topic(last, parts))
    return tuple(topics)


def _same_topic(one: Wanted, other: Wanted) -> bool:
    # Partitions of one request share the same objects, and comparing UUIDs is slow.
    if one.topic_id is other.topic_id:
        return one.topic is other.topic or one.topic == other.topic
    return one.topic_id == other.topic_id and one.topic == other.topic


def _topic(wanted: Wanted, parts: list[PartitionData]) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=tuple(parts))
