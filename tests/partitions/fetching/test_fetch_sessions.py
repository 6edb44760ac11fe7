"""Fetch sessions, one rule at a time; `test_fetch_session_machine.py` tests all rules together."""

import gc
from itertools import count
from uuid import UUID

import pytest

from odradek.partitions.fetching.sessions import (
    EVICTION_MS,
    LAST_EPOCH,
    NO_SESSION,
    EvictionKey,
    FetchSessions,
    Wanted,
    grouped,
)
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData
from odradek.wire.schema.types import ZERO_UUID

BY_NAME, BY_ID = 12, 13
NOW_MS = 1_000_000
ID, OTHER_ID = UUID(int=1), UUID(int=2)
NAMES = {ID: "t", OTHER_ID: "other"}


def cache(slots=1, max_partitions=100):
    return FetchSessions(slots, count(1).__next__, max_partitions)


def topic(*partitions, name="t", topic_id=ZERO_UUID, offset=0):
    parts = tuple([FetchPartition(partition=index, fetch_offset=offset) for index in partitions])
    return FetchTopic(topic=name, topic_id=topic_id, partitions=parts)


def begin(sessions, partitions=1, now_ms=NOW_MS, privileged=False):
    """Creates a session of `partitions` partitions; returns its id, 0 when there is no room."""
    answers = [(Wanted("t", ZERO_UUID, FetchPartition(partition=n)), data(n)) for n in range(partitions)]
    return sessions.create(answers, False, now_ms, privileged=privileged)


def data(index=0, **fields):
    return PartitionData(partition_index=index, **{"high_watermark": 0, "log_start_offset": 0, "records": ()} | fields)


def fetch(sessions, *topics, session=(0, -1), version=BY_NAME, forget=(), now_ms=NOW_MS, **fields):
    """One fetch, with the same answer for all partitions; returns the response and the partitions to be read."""
    request = FetchRequest(
        session_id=session[0], session_epoch=session[1], topics=topics, forgotten_topics_data=tuple(forget)
    )
    opened = sessions.open(request, version, NAMES.get, now_ms)
    response = opened.answer([(one, data(one.asked.partition, **fields)) for one in opened.wanted], now_ms)
    return response, [(one.topic, one.asked.partition, one.asked.fetch_offset) for one in opened.wanted]


def error_of(sessions, session, **fields):
    return fetch(sessions, session=session, **fields)[0].error_code


# Requests


def test_of_a_partition_named_twice_the_last_counts():
    _, read = fetch(cache(), topic(0, 1), topic(1, offset=5))
    assert read == [("t", 0, 0), ("t", 1, 5)]


def test_without_an_epoch_there_is_no_session():
    response, read = fetch(cache(), topic(0))
    assert (response.session_id, read, len(response.responses)) == (NO_SESSION, [("t", 0, 0)], 1)


def test_an_incremental_fetch_adds_changes_and_removes():
    sessions = cache()
    begun, _ = fetch(sessions, topic(0, 1, 2), session=(0, 0))
    changes = (topic(1, offset=7), topic(4))
    forget = (ForgottenTopic(topic="t", partitions=(0, 9)),)
    response, read = fetch(sessions, *changes, session=(begun.session_id, 1), forget=forget)
    assert read == [("t", 1, 7), ("t", 2, 0), ("t", 4, 0)]
    assert [part.partition_index for part in response.responses[0].partitions] == [4]


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, False),
        ({"high_watermark": 1}, True),
        ({"log_start_offset": 1}, True),
        ({"last_stable_offset": 1}, False),
        ({"error_code": ErrorCode.OFFSET_OUT_OF_RANGE}, True),
        ({"records": (memoryview(b"x"),)}, True),
        ({"preferred_read_replica": 2}, True),
    ],
)
def test_only_partitions_with_changes_are_sent(fields, sent):
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    response, _ = fetch(sessions, session=(begun.session_id, 1), **fields)
    assert bool(response.responses) is sent


@pytest.mark.parametrize("privileged", [True, False])
def test_a_partition_that_is_named_again_is_sent_to_a_follower(privileged):
    """The follower may have dropped the previous answer."""
    sessions = cache()
    session_id = begin(sessions, privileged=privileged)
    named, _ = fetch(sessions, topic(0, offset=1), session=(session_id, 1))
    assert bool(named.responses) is privileged
    unnamed, _ = fetch(sessions, session=(session_id, 2))
    assert not unnamed.responses


def test_the_end_of_an_error_is_news():
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    for epoch, fields, sent in (
        (1, {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}, True),
        (2, {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}, True),
        (3, {}, True),
        (4, {}, False),
    ):
        response, _ = fetch(sessions, session=(begun.session_id, epoch), **fields)
        assert bool(response.responses) is sent


def test_what_gave_records_goes_to_the_end_of_the_order():
    sessions = cache()
    begun, _ = fetch(sessions, topic(0, 1, 2), session=(0, 0))
    request = FetchRequest(session_id=begun.session_id, session_epoch=1)
    opened = sessions.open(request, BY_NAME, NAMES.get, NOW_MS)
    records = {0: (memoryview(b"x"),), 1: (memoryview(b"x"),)}
    opened.answer([(one, data(records=records.get(one.asked.partition, ()))) for one in opened.wanted], NOW_MS)
    assert [index for _, index, _ in fetch(sessions, session=(begun.session_id, 2))[1]] == [2, 0, 1]


def test_an_id_gets_its_name_once_there_is_one():
    sessions = cache()
    begun, read = fetch(sessions, topic(0, topic_id=UUID(int=3)), session=(0, 0), version=BY_ID)
    assert read == [(None, 0, 0)]
    request = FetchRequest(session_id=begun.session_id, session_epoch=1)
    later = sessions.open(request, BY_ID, {UUID(int=3): "new"}.get, NOW_MS)
    assert [one.topic for one in later.wanted] == ["new"]


# Refused requests


def test_errors_in_kafkas_order():
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    number = begun.session_id
    assert error_of(sessions, (number + 1, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert error_of(sessions, (number, 2), version=BY_ID) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert error_of(sessions, (number, 1), version=BY_ID) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert error_of(sessions, (number, 1)) == 0, "what was refused changed nothing"
    assert error_of(sessions, (number, 1)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_of_two_fetches_at_once_only_the_later_is_answered():
    """The reader's connection broke and a new one continues: what the first fetch reads must not change the session."""
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    request = FetchRequest(session_id=begun.session_id, session_epoch=1)
    first = sessions.open(request, BY_NAME, NAMES.get, NOW_MS)
    assert error_of(sessions, (begun.session_id, 2)) == 0
    answer = first.answer([(one, data(high_watermark=9)) for one in first.wanted], NOW_MS)
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, begun.session_id)
    assert answer.responses == ()
    assert fetch(sessions, session=(begun.session_id, 3), high_watermark=9)[0].responses != ()


def test_epochs_go_round_past_the_last(monkeypatch):
    assert LAST_EPOCH == 2**31 - 1
    monkeypatch.setattr("odradek.partitions.fetching.sessions.LAST_EPOCH", 3)
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    for epoch in (1, 2, 3, 1):
        assert error_of(sessions, (begun.session_id, epoch)) == 0


def test_a_session_of_nothing_ends():
    sessions = cache()
    begun, _ = fetch(sessions, topic(0), session=(0, 0))
    forget = (ForgottenTopic(topic="t", partitions=(0,)),)
    response, read = fetch(sessions, session=(begun.session_id, 1), forget=forget)
    assert (response.error_code, response.session_id, read, len(sessions)) == (0, NO_SESSION, [], 0)


# The cache


def test_no_slots_no_sessions():
    assert begin(cache(slots=0)) == NO_SESSION


def test_a_full_cache_gives_no_session_to_an_equal():
    sessions = cache()
    first = begin(sessions)
    assert first != NO_SESSION
    assert begin(sessions, partitions=9, now_ms=NOW_MS + EVICTION_MS) == NO_SESSION, "the first is too young to go"
    assert first in sessions


def test_what_was_not_used_for_long_goes_first():
    sessions = cache(slots=2)
    first, second = begin(sessions, partitions=9), begin(sessions, partitions=1, now_ms=NOW_MS + 1)
    third = begin(sessions, now_ms=NOW_MS + EVICTION_MS + 1)
    assert [each in sessions for each in (first, second, third)] == [False, True, True]


@pytest.mark.parametrize(("partitions", "evicts"), [(1, False), (2, False), (3, True)])
def test_the_larger_one_stays(partitions, evicts):
    """Both sessions are older than the eviction time and in use."""
    sessions = cache(slots=2)
    small, large = begin(sessions, 2), begin(sessions, 5)
    later_ms = NOW_MS + EVICTION_MS + 1
    for each in (small, large):
        assert error_of(sessions, (each, 1), now_ms=later_ms) == 0
    newcomer = begin(sessions, partitions, later_ms)
    assert (newcomer != NO_SESSION) is evicts
    assert [small in sessions, large in sessions] == [not evicts, True]


def test_a_session_that_grows_is_worth_more():
    sessions = cache(slots=2)
    one, two = begin(sessions, 1), begin(sessions, 2)
    later_ms = NOW_MS + EVICTION_MS + 1
    assert fetch(sessions, topic(5, 6, 7), session=(one, 1), now_ms=later_ms)[0].error_code == 0
    assert error_of(sessions, (two, 1), now_ms=later_ms) == 0
    assert begin(sessions, 3, later_ms) != NO_SESSION
    assert [one in sessions, two in sessions] == [True, False]


def test_a_follower_comes_before_consumers_of_any_age_but_not_before_a_young_follower():
    sessions = cache()
    consumer = begin(sessions, 50)
    follower = begin(sessions, 1, privileged=True)
    assert [consumer in sessions, follower in sessions] == [False, True]
    assert begin(sessions, 99, privileged=True) == NO_SESSION
    assert begin(sessions, 99) == NO_SESSION


def test_the_cache_is_consistent_after_many_sessions():
    first_id = 10**9
    sessions = FetchSessions(5, count(first_id).__next__, 100)
    for number in range(200):
        session = begin(sessions, 1 + number % 7, NOW_MS + number * 20_000)
        if session and number % 3:
            error_of(sessions, (session, 1), now_ms=NOW_MS + number * 20_000 + 1)
        if session and not number % 5:
            fetch(sessions, session=(session, -1))
    assert len(sessions) <= 5
    in_memory = {each.session_id for each in gc.get_objects() if isinstance(each, EvictionKey)}
    of_this_cache = in_memory & set(range(first_id, first_id + 1000))  # other tests may have sessions, too
    assert len(of_this_cache) == len(sessions) > 0
    assert all(each in sessions for each in of_this_cache)


def test_a_session_has_no_more_than_so_many_partitions():
    sessions = cache(max_partitions=3)
    assert fetch(sessions, topic(0, 1, 2, 3), session=(0, 0))[0].session_id == NO_SESSION
    begun, _ = fetch(sessions, topic(0, 1, 2), session=(0, 0))
    assert error_of(sessions, (begun.session_id, 1)) == 0
    response, _ = fetch(sessions, topic(3), session=(begun.session_id, 2))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def test_ids_are_not_given_twice():
    sessions = FetchSessions(3, iter([7, 7, 7, 8]).__next__, 10)
    assert [begin(sessions), begin(sessions)] == [7, 8]


# The response


def test_neighbours_of_one_topic_stand_together():
    ids = [ID, UUID(int=1), OTHER_ID, ID]
    wanted = [Wanted(NAMES[each], each, FetchPartition(partition=n)) for n, each in enumerate(ids)]
    found = grouped([(one, data(one.asked.partition)) for one in wanted])
    assert [(one.topic, [part.partition_index for part in one.partitions]) for one in found] == [
        ("t", [0, 1]),
        ("other", [2]),
        ("t", [3]),
    ]
    assert grouped([]) == ()
