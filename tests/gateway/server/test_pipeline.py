"""The pipeline of one connection: states, the order of replies, limits, memory, and how connections end."""

import itertools

import pytest

from odradek.gateway.server.pipeline import TRANSITIONS, Event, Limits, Pipeline, State
from odradek.wire.errors import FrameTooLargeError

REQUEST_BYTES = 1_000_000
LIMITS = Limits(request_bytes=REQUEST_BYTES, in_flight_requests=3, in_flight_bytes=1000)


def framed(*payloads):
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def give(pipeline, data):
    """Passes `data` to the pipeline as far as the pipeline accepts it; returns the number of bytes accepted."""
    taken = 0
    while taken < len(data):
        buffer = pipeline.buffer()
        if buffer is None:
            break
        some = data[taken : taken + len(buffer)]
        buffer[: len(some)] = some
        pipeline.received(len(some))
        taken += len(some)
        if pipeline.state is State.HANDLING:
            break
    return taken


def take(pipeline, *, pipelined=True, keeps_memory=True):
    """The next request, decoded; it has not begun."""
    exchange, frame = pipeline.next_request()
    pipeline.decoded(exchange, bytes(frame), pipelined, keeps_memory)
    return exchange


def begin(pipeline, **kind):
    exchange = take(pipeline, **kind)
    assert pipeline.begin(exchange)
    return exchange


def sent(pipeline):
    """All bytes to send now, as if the network accepted them at once."""
    replies = []
    while (reply := pipeline.next_reply()) is not None:
        replies.append(b"".join(reply))
        pipeline.replied()
    return replies


@pytest.fixture
def pipeline():
    return Pipeline(LIMITS)


def test_a_request_is_taken_begun_answered_and_the_next_is_received(pipeline):
    assert give(pipeline, framed(b"one")[:3]) == 3
    assert (pipeline.state, pipeline.next_request()) == (State.RECEIVING, None)
    give(pipeline, framed(b"one")[3:])
    assert pipeline.state is State.HANDLING
    exchange = begin(pipeline, pipelined=False)
    assert (exchange.context, sent(pipeline)) == (b"one", [])
    pipeline.answer(exchange, [b"re", b"ply"])
    assert sent(pipeline) == [b"reply"]
    assert (pipeline.next_request(), pipeline.state) == (None, State.RECEIVING)


def test_replies_leave_in_the_order_of_the_requests(pipeline):
    give(pipeline, framed(b"1", b"2", b"3"))
    first, second, third = (begin(pipeline) for _ in range(3))
    pipeline.answer(third, [b"third"])
    pipeline.answer(second, [b"second"])
    assert sent(pipeline) == []
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first", b"second", b"third"]


def test_a_request_without_a_reply_keeps_its_place(pipeline):
    give(pipeline, framed(b"1", b"2"))
    first, second = begin(pipeline), begin(pipeline)
    pipeline.answer(second, [b"second"])
    pipeline.answer(first, ())
    assert sent(pipeline) == [b"", b"second"]


def test_one_reply_is_sent_at_a_time(pipeline):
    give(pipeline, framed(b"1", b"2"))
    for exchange in (begin(pipeline), begin(pipeline)):
        pipeline.answer(exchange, [b"reply"])
    assert pipeline.next_reply() is not None
    assert pipeline.next_reply() is None
    pipeline.replied()
    assert pipeline.next_reply() is not None


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (False, False)])
def test_only_pipelined_requests_are_in_flight_together(pipeline, before, after):
    give(pipeline, framed(b"1", b"2"))
    first = begin(pipeline, pipelined=before)
    second = take(pipeline, pipelined=after)
    assert not pipeline.begin(second)
    pipeline.answer(first, [b"first"])
    assert not pipeline.begin(second), "the reply is there, and not out"
    assert sent(pipeline) == [b"first"]
    assert pipeline.begin(second)


def test_no_more_than_the_allowed_requests_are_in_flight(pipeline):
    give(pipeline, framed(b"1", b"2", b"3", b"4"))
    first, *_ = (begin(pipeline) for _ in range(LIMITS.in_flight_requests))
    fourth = take(pipeline)
    assert not pipeline.begin(fourth)
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert pipeline.begin(fourth)


def test_no_more_than_the_allowed_bytes_are_in_flight_but_one_request_may_be_larger(pipeline):
    give(pipeline, framed(bytes(2000), b"2"))
    first = begin(pipeline)
    second = take(pipeline)
    assert not pipeline.begin(second)
    pipeline.answer(first, [b"first"])
    sent(pipeline)
    assert pipeline.begin(second)


def test_memory_is_taken_with_the_request_and_given_back_with_its_reply(pipeline):
    give(pipeline, framed(b"123", b"45"))
    assert pipeline.memory_bytes == 0, "what lies in the first buffer does not count"
    first = begin(pipeline)
    second = begin(pipeline)
    assert pipeline.memory_bytes == 5
    for exchange in (first, second):
        pipeline.answer(exchange, [b"reply"])
    assert pipeline.memory_bytes == 5
    sent(pipeline)
    assert pipeline.memory_bytes == 0


def test_the_memory_of_a_request_that_waits_for_others_does_not_count(pipeline):
    give(pipeline, framed(b"fetch"))
    pipeline.answer(begin(pipeline, pipelined=False, keeps_memory=False), [b"reply"])
    assert pipeline.memory_bytes == 0
    sent(pipeline)
    assert pipeline.memory_bytes == 0


def test_a_large_request_counts_as_unfinished_until_it_is_complete(pipeline):
    data = framed(bytes(500_000))
    seen = []
    for start in range(0, len(data), 50_000):
        some = data[start : start + 50_000]
        assert give(pipeline, some) == len(some)
        seen.append(pipeline.unfinished_bytes)
    assert seen == [*sorted(seen[:-1]), 0]
    assert 0 < seen[0] < 500_000
    begin(pipeline)
    assert (pipeline.memory_bytes, pipeline.unfinished_bytes) == (500_000, 0)


def test_an_unfinished_request_does_not_count_when_the_peer_finishes(pipeline):
    give(pipeline, framed(bytes(500_000))[:300_000])
    assert pipeline.unfinished_bytes > 0
    pipeline.received(0)
    assert (pipeline.unfinished_bytes, pipeline.state) == (0, State.CLOSED)


# How connections end


def test_what_was_received_is_answered_after_the_peer_has_finished(pipeline):
    give(pipeline, framed(b"1", b"2"))
    first = begin(pipeline)
    pipeline.end_input()
    second = begin(pipeline)
    assert (pipeline.buffer(), pipeline.next_request(), pipeline.state) == (None, None, State.DRAINING)
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert pipeline.state is State.DRAINING
    pipeline.answer(second, [b"second"])
    assert sent(pipeline) == [b"second"]
    assert (pipeline.state, pipeline.failure, pipeline.give_up()) == (State.CLOSED, None, [])


def test_bytes_that_come_while_it_drains_are_not_requests(pipeline):
    give(pipeline, framed(b"1"))
    begin(pipeline)
    assert pipeline.next_request() is None
    buffer = pipeline.buffer()
    pipeline.end_input()
    buffer[:5] = framed(b"2")
    pipeline.received(5)
    assert (pipeline.next_request(), pipeline.state) == (None, State.DRAINING)


def test_a_drain_closes_at_once_when_nothing_is_in_flight(pipeline):
    give(pipeline, framed(b"half of a request")[:7])
    pipeline.end_input()
    assert pipeline.state is State.CLOSED


def test_a_drain_while_held_back_answers_what_is_in_flight(pipeline):
    give(pipeline, framed(b"1"))
    exchange = begin(pipeline)
    assert pipeline.next_request() is None
    pipeline.hold_back()
    assert (pipeline.state, pipeline.buffer()) == (State.HELD_BACK, None)
    pipeline.end_input()
    pipeline.go_on()
    assert (pipeline.state, pipeline.buffer()) == (State.DRAINING, None)
    pipeline.answer(exchange, [b"reply"])
    assert sent(pipeline) == [b"reply"]
    assert pipeline.state is State.CLOSED


def test_it_receives_again_after_it_was_held_back(pipeline):
    pipeline.hold_back()
    pipeline.go_on()
    assert give(pipeline, framed(b"1")) == 5
    assert pipeline.state is State.HANDLING


def test_a_failure_closes_when_the_replies_before_it_are_out(pipeline):
    error = ValueError("no good")
    give(pipeline, framed(b"1", b"2", b"3"))
    first, second = begin(pipeline), begin(pipeline)
    pipeline.fail(second, error)
    assert (pipeline.next_request(), pipeline.state, pipeline.failure) == (None, State.DRAINING, None)
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert (pipeline.state, pipeline.failure) == (State.CLOSED, error)
    assert pipeline.give_up() == [second]


def test_a_request_does_not_begin_after_one_before_it_has_failed(pipeline):
    give(pipeline, framed(b"1", b"2", b"3", b"4"))
    first, second = begin(pipeline), begin(pipeline)
    third, _ = pipeline.next_request()
    pipeline.decoded(third, "third", is_pipelined=False, keeps_memory=True)
    assert not pipeline.begin(third)
    assert not third.is_dropped
    memory_bytes = pipeline.memory_bytes
    pipeline.fail(second, ValueError("no good"))
    assert third.is_dropped
    assert not pipeline.begin(third)
    assert pipeline.memory_bytes < memory_bytes
    assert pipeline.next_request() is None
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert pipeline.state is State.CLOSED
    assert pipeline.give_up() == [second]


def test_the_failure_of_an_earlier_request_comes_first(pipeline):
    give(pipeline, framed(b"1", b"2"))
    first, second = begin(pipeline), begin(pipeline)
    pipeline.fail(second, ValueError("second"))
    pipeline.fail(first, KeyError("first"))
    assert isinstance(pipeline.failure, KeyError)


def test_a_request_that_fails_before_it_begins_keeps_its_place(pipeline):
    give(pipeline, framed(b"1", b"garbage"))
    first = begin(pipeline)
    garbage, _ = pipeline.next_request()
    pipeline.fail(garbage, ValueError("no good"))
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert isinstance(pipeline.failure, ValueError)


def test_a_frame_too_large_closes_when_the_requests_before_it_are_answered(pipeline):
    give(pipeline, framed(b"1") + (REQUEST_BYTES + 1).to_bytes(4, "big"))
    first = begin(pipeline)
    assert pipeline.next_request() is None
    assert (pipeline.buffer(), pipeline.state) == (None, State.DRAINING)
    pipeline.answer(first, [b"first"])
    assert sent(pipeline) == [b"first"]
    assert (pipeline.state, type(pipeline.failure)) == (State.CLOSED, FrameTooLargeError)


def test_a_frame_too_large_at_once_closes_at_once(pipeline):
    give(pipeline, (REQUEST_BYTES + 1).to_bytes(4, "big"))
    assert (pipeline.state, type(pipeline.failure)) == (State.CLOSED, FrameTooLargeError)


def test_nothing_is_sent_after_close_and_what_was_in_flight_is_given_up(pipeline):
    give(pipeline, framed(b"1", b"2"))
    first, second = begin(pipeline), begin(pipeline)
    pipeline.answer(first, [b"first"])
    pipeline.close(OSError("reset"))
    pipeline.answer(second, [b"second"])
    pipeline.fail(second, ValueError("late"))
    assert (sent(pipeline), pipeline.memory_bytes) == ([], 2)
    assert (pipeline.give_up(), pipeline.memory_bytes) == ([first, second], 0)
    assert isinstance(pipeline.failure, OSError)


def test_a_close_may_be_repeated_and_keeps_the_first_failure(pipeline):
    pipeline.close(OSError("reset"))
    pipeline.close(ValueError("later"))
    pipeline.close()
    assert isinstance(pipeline.failure, OSError)


# Errors of the driver


def test_the_next_request_is_not_taken_before_the_last_has_begun(pipeline):
    give(pipeline, framed(b"1", b"2"))
    take(pipeline)
    with pytest.raises(AssertionError, match="has not begun"):
        pipeline.next_request()


def test_a_reply_that_was_not_due_cannot_be_out(pipeline):
    give(pipeline, framed(b"1"))
    begin(pipeline)
    with pytest.raises(AssertionError, match="not due"):
        pipeline.replied()


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_event_has_the_transition_of_the_table_or_none(state, event):
    """Every state can be drained or closed, a draining connection never receives, a closed one stays closed."""
    to = TRANSITIONS[state].get(event)
    if event is Event.CLOSE:
        assert to is State.CLOSED
    if event is Event.END:
        assert to is (State.CLOSED if state is State.CLOSED else State.DRAINING)
    if state in (State.DRAINING, State.CLOSED):
        assert to in (None, State.DRAINING, State.CLOSED)
    if state is State.CLOSED:
        assert to in (None, State.CLOSED)
