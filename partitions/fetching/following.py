"""The follower's side of a fetch session (KIP-227): what of its wishes the leader does not know yet.

`sessions.py` is the leader's side, whose theory holds here as well. The first fetch names everything; if a session
comes of it, each further one names only the partitions whose position has changed, those that are new, and those to
forget. Any error of the session, and a fetch without an answer, begin anew with a full fetch.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from odradek.partitions.fetching.sessions import FINAL_EPOCH, INITIAL_EPOCH, LAST_EPOCH, NO_SESSION
from odradek.partitions.follower import FetchPosition
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

TopicPartition = tuple[UUID, int]
"""A partition by the id of its topic."""


class SessionPart(NamedTuple):
    """The part of a Fetch request that is about its session."""

    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...]


class FollowerSession:
    """One follower's session with one leader. One fetch is under way at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, FetchPosition] = {}
        self._max_bytes = 0

    def begin_anew(self) -> None:
        """Forget what the leader knows: the next fetch names everything. The session left behind goes with it."""
        self._epoch = INITIAL_EPOCH
        self._known = {}

    def request(self, wanted: Mapping[TopicPartition, FetchPosition], max_bytes: int) -> SessionPart:
        """What to send, for the leader to give what there is from the `wanted` positions on, of each so many bytes."""
        known = self._known if max_bytes == self._max_bytes else {}
        changed = {place: at for place, at in wanted.items() if known.get(place) != at}
        gone = [place for place in self._known if place not in wanted]
        self._known, self._max_bytes = dict(wanted), max_bytes
        if self._epoch == INITIAL_EPOCH:
            return SessionPart(self._id, INITIAL_EPOCH, _topics(wanted, max_bytes), ())
        return SessionPart(self._id, self._epoch, _topics(changed, max_bytes), _forgotten(gone))

    def take(self, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
        """What was answered, partition by partition, to the last request; nothing where the session is broken."""
        if response.error_code != ErrorCode.NONE:
            self.begin_anew()
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            return
        if self._epoch == INITIAL_EPOCH:
            self._id = response.session_id
        if self._id == NO_SESSION:
            self.begin_anew()
        else:
            self._epoch = self._epoch + 1 if self._epoch < LAST_EPOCH else INITIAL_EPOCH + 1
        for topic in response.responses:
            for part in topic.partitions:
                yield (topic.topic_id, part.partition_index), part

    def end(self) -> SessionPart:
        """What to send to end the session, when nothing is wanted any more."""
        return SessionPart(self._id, FINAL_EPOCH, (), ())


def _topics(wanted: Mapping[TopicPartition, FetchPosition], max_bytes: int) -> tuple[FetchTopic, ...]:
    by_topic: dict[UUID, list[FetchPartition]] = {}
    for (topic_id, index), at in wanted.items():
        part = FetchPartition(
            partition=index,
            current_leader_epoch=at.leader_epoch,
            fetch_offset=at.offset,
            last_fetched_epoch=at.last_fetched_epoch,
            log_start_offset=at.log_start_offset,
            partition_max_bytes=max_bytes,
        )
        by_topic.setdefault(topic_id, []).append(part)
    return tuple(FetchTopic(topic_id=topic_id, partitions=tuple(parts)) for topic_id, parts in by_topic.items())


def _forgotten(gone: list[TopicPartition]) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in gone:
        by_topic.setdefault(topic_id, []).append(index)
    return tuple(ForgottenTopic(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in by_topic.items())
