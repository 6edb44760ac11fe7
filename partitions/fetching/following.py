"""The follower's side of a fetch session (KIP-227): sends only what has changed since the last fetch.

The leader's side and the theory of operation are in `sessions.py`. The first fetch names every partition. If it creates
a session, each later fetch names only the partitions whose position has changed, new ones, and those to forget. Any
session error, and a fetch without a response, restarts with a full fetch.
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
    """The fields of a Fetch request that concern its session."""

    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...]


class FollowerSession:
    """A follower's session with one leader, which has at most one fetch in flight."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, FetchPosition] = {}
        self._max_bytes = 0

    def restart(self) -> None:
        """Make the next fetch a full one, which also ends the old session if there is one."""
        self._epoch = INITIAL_EPOCH
        self._known = {}

    def request(self, wanted: Mapping[TopicPartition, FetchPosition], max_bytes: int) -> SessionPart:
        """Returns the request fields that fetch the `wanted` positions, at most `max_bytes` of each partition."""
        known = self._known if max_bytes == self._max_bytes else {}
        changed = {partition: at for partition, at in wanted.items() if known.get(partition) != at}
        gone = [partition for partition in self._known if partition not in wanted]
        self._known, self._max_bytes = dict(wanted), max_bytes
        if self._epoch == INITIAL_EPOCH:
            return SessionPart(self._id, INITIAL_EPOCH, _topics(wanted, max_bytes), ())
        return SessionPart(self._id, self._epoch, _topics(changed, max_bytes), _forgotten(gone))

    def take(self, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
        """Process the response to the last request; yields its partitions, none if it reports a session error.

        The session is updated when the iteration begins, so the result has to be iterated.
        """
        if response.error_code != ErrorCode.NONE:
            self.restart()
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            return
        if self._epoch == INITIAL_EPOCH:
            self._id = response.session_id
        if self._id == NO_SESSION:
            self.restart()
        else:
            self._epoch = self._epoch + 1 if self._epoch < LAST_EPOCH else INITIAL_EPOCH + 1
        for topic in response.responses:
            for part in topic.partitions:
                yield (topic.topic_id, part.partition_index), part

    def end(self) -> SessionPart:
        """Returns the request fields that end the session, for when nothing is fetched any more."""
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
