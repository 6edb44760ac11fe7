"""The two sides of a fetch session, the follower's and the leader's, connected without a network."""

from itertools import count
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.partitions.fetching.following import FollowerSession
from odradek.partitions.fetching.selection import Candidate, nearest_replica
from odradek.partitions.fetching.sessions import FetchSessions
from odradek.partitions.follower import FetchPosition
from odradek.wire.messages.fetch import FetchRequest, PartitionData, ReplicaState

TOPICS = (UUID(int=1), UUID(int=2))
VERSION = 17


def position(offset: int) -> FetchPosition:
    return FetchPosition(leader_epoch=0, offset=offset, last_fetched_epoch=-1, log_start_offset=0)


def exchange(session: FollowerSession, leader: FetchSessions, wanted: dict, lost: str) -> set:
    """One fetch, whose request or response may get lost; returns the partitions that the leader reads for it."""
    part = session.request({partition: position(at) for partition, at in wanted.items()}, 1 << 20)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=1),
        session_id=part.session_id,
        session_epoch=part.session_epoch,
        topics=part.topics,
        forgotten_topics_data=part.forgotten,
    )
    if lost == "request":
        session.restart()
        return set()
    fetch = leader.open(request, VERSION, lambda topic_id: f"t{topic_id.int}", 0)
    read = {(each.topic_id, each.asked.partition, each.asked.fetch_offset) for each in fetch.wanted}
    response = fetch.answer([(each, PartitionData(partition_index=each.asked.partition)) for each in fetch.wanted], 0)
    if lost == "response":
        session.restart()
        return set()
    list(session.take(response))
    return read


_wishes = st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), st.integers(0, 3), max_size=5)


@given(rounds=st.lists(st.tuples(_wishes, st.sampled_from(["", "", "request", "response"])), max_size=8))
def test_the_leader_reads_what_the_follower_wants_at_the_second_try_at_the_latest(rounds) -> None:
    ids = count(1)
    session, leader = FollowerSession(), FetchSessions(slots=2, new_id=lambda: next(ids), max_partitions=100)
    for wanted, lost in rounds:
        exchange(session, leader, wanted, lost)
        expected = {(topic_id, index, at) for (topic_id, index), at in wanted.items()}
        got = exchange(session, leader, wanted, "")
        assert got == expected or exchange(session, leader, wanted, "") == expected


def test_a_session_names_only_what_has_changed() -> None:
    session, leader = FollowerSession(), FetchSessions(slots=2, new_id=lambda: 7, max_partitions=100)
    first, second = (TOPICS[0], 0), (TOPICS[0], 1)
    exchange(session, leader, {first: 0, second: 0}, "")
    part = session.request({first: position(1)}, 1 << 20)
    assert (part.session_id, part.session_epoch) == (7, 1)
    assert [[each.partition for each in topic.partitions] for topic in part.topics] == [[0]]
    assert [each.partitions for each in part.forgotten] == [(1,)]
    part = session.request({first: position(1)}, 1 << 10)
    assert [[each.partition_max_bytes for each in topic.partitions] for topic in part.topics] == [[1 << 10]]


def test_followers_have_the_better_claim_to_a_session() -> None:
    """A follower's new session evicts a consumer's session; a consumer's new session never evicts a follower's."""
    ids = count(1)
    leader = FetchSessions(slots=1, new_id=lambda: next(ids), max_partitions=100)
    session = FollowerSession()
    exchange(session, leader, {(TOPICS[0], 0): 0}, "")
    consumer = FetchRequest(session_epoch=0, topics=session.request({(TOPICS[1], 0): position(0)}, 1 << 20).topics)
    fetch = leader.open(consumer, VERSION, lambda _: "t", 0)
    assert fetch.answer([(each, PartitionData()) for each in fetch.wanted], 0).session_id == 0


@pytest.mark.parametrize(
    ("rack", "offset", "expected"),
    [("a", 5, None), ("b", 5, 3), ("b", 8, 3), ("b", 9, None), ("c", 5, None), ("b", 1, None)],
)
def test_a_consumer_is_sent_to_the_replica_of_its_rack_that_has_most(rack, offset, expected) -> None:
    candidates = [Candidate(2, "b", 2, 6, 9), Candidate(3, "b", 2, 8, 1), Candidate(4, None, 0, 9, 9)]
    assert nearest_replica(rack, "a", offset, candidates) == expected
