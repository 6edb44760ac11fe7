"""A connection's pipeline under any order of receiving, handling, sending, failing, draining and closing.

The client numbers its requests; the driver answers in any order, and the network accepts replies at any time.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.gateway.server.pipeline import Limits, Pipeline, State

IN_FLIGHT, IN_FLIGHT_BYTES = 2, 400
LIMITS = Limits(request_bytes=100_000, in_flight_requests=IN_FLIGHT, in_flight_bytes=IN_FLIGHT_BYTES)
PRODUCE, FETCH, METADATA = b"P", b"F", b"M"
PIPELINED, KEEPS_MEMORY = {PRODUCE}, {PRODUCE, METADATA}
NUMBER_BYTES = 4
SIZES = st.sampled_from([0, 0, 50, 150, 500, 20_000])


class PipelineMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.pipeline = Pipeline(LIMITS)
        self.stream = bytearray()
        self.requests = 0
        self.waiting = None
        self.in_flight = {}
        """Request number to its exchange, from its begin until its reply is sent."""
        self.taken_bytes = {}
        """Request number to the bytes of memory that it holds, from when it is taken."""
        self.sizes = {}
        self.taken = 0
        self.answered = set()
        self.failed = set()
        self.due = None
        self.replied = []
        self.was_cut = False
        self.calm = 0

    @initialize(calm=st.integers(0, 8))
    def begin_calmly(self, calm):
        """Nothing ends the connection before this many replies are sent; otherwise most examples would end at once."""
        self.calm = calm

    def may_end(self):
        return len(self.replied) >= self.calm

    # The client

    @rule(kinds=st.lists(st.sampled_from([PRODUCE, PRODUCE, FETCH, METADATA]), min_size=1, max_size=6), size=SIZES)
    def send(self, kinds, size):
        for kind in kinds:
            payload = kind + self.requests.to_bytes(NUMBER_BYTES, "big") + bytes(size)
            self.stream += len(payload).to_bytes(4, "big") + payload
            self.requests += 1

    @precondition(lambda self: not self.was_cut and self.may_end())
    @rule()
    def send_garbage(self):
        self.stream += (2**31 - 1).to_bytes(4, "big")
        self.was_cut = True

    # The driver

    @precondition(lambda self: self.stream and self.pipeline.state is State.RECEIVING)
    @rule(most=st.sampled_from([3, 70, 100_000, 100_000]))
    def receive(self, most):
        buffer = self.pipeline.buffer()
        if buffer is None:
            assert self.was_cut
            return
        some = self.stream[: min(most, len(buffer))]
        buffer[: len(some)] = some
        del self.stream[: len(some)]
        self.pipeline.received(len(some))

    @precondition(lambda self: self.waiting is None and self.pipeline.state in (State.HANDLING, State.DRAINING))
    @rule()
    def take(self):
        taken = self.pipeline.next_request()
        if taken is None:
            assert self.pipeline.state is not State.HANDLING
            return
        exchange, frame = taken
        kind, number = bytes(frame[:1]), int.from_bytes(frame[1 : 1 + NUMBER_BYTES], "big")
        assert number == self.taken, "requests come in their order"
        self.taken += 1
        self.taken_bytes[number] = len(frame) if kind in KEEPS_MEMORY else 0
        self.sizes[number] = len(frame)
        self.pipeline.decoded(exchange, number, kind in PIPELINED, kind in KEEPS_MEMORY)
        self.waiting = exchange

    @precondition(lambda self: self.waiting is not None and self.pipeline.state is not State.CLOSED)
    @rule()
    def begin(self):
        if self.pipeline.begin(self.waiting):
            self.in_flight[self.waiting.context] = self.waiting
            self.waiting = None
        else:
            assert self.in_flight, "what waits would wait for ever"

    @precondition(lambda self: self.in_flight and self.pipeline.state is not State.CLOSED)
    @rule(data=st.data())
    def hand_on(self, data):
        number = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.pipeline.handed_on(self.in_flight[number])
        self.taken_bytes[number] = 0

    def unanswered(self):
        return sorted(self.in_flight.keys() - self.answered - self.failed)

    @precondition(lambda self: self.unanswered())
    @rule(data=st.data())
    def answer(self, data):
        number = data.draw(st.sampled_from(self.unanswered()))
        self.answered.add(number)
        self.pipeline.answer(self.in_flight[number], [b"%d" % number])

    @precondition(lambda self: self.unanswered() and self.may_end())
    @rule(data=st.data())
    def fail(self, data):
        number = data.draw(st.sampled_from(self.unanswered()))
        self.failed.add(number)
        self.pipeline.fail(self.in_flight[number], ValueError(number))
        if self.waiting is not None:
            assert self.waiting.is_dropped
            del self.taken_bytes[self.waiting.context]
            self.waiting = None

    @precondition(lambda self: self.due is None)
    @rule()
    def begin_to_send(self):
        reply = self.pipeline.next_reply()
        if reply is not None:
            self.due = int(b"".join(reply))
            assert self.due == len(self.replied), "replies leave in the order of the requests"
            assert self.due in self.answered
            assert self.pipeline.state is not State.CLOSED

    @precondition(lambda self: self.due is not None and self.pipeline.state is not State.CLOSED)
    @rule()
    def sent(self):
        assert self.pipeline.next_reply() is None
        assert self.pipeline.replied().context == self.due
        self.replied.append(self.due)
        del self.in_flight[self.due], self.taken_bytes[self.due]
        self.due = None

    @precondition(lambda self: self.pipeline.state is State.RECEIVING)
    @rule()
    def hold_back(self):
        self.pipeline.hold_back()

    @precondition(lambda self: self.pipeline.state is State.HELD_BACK)
    @rule()
    def go_on(self):
        self.pipeline.go_on()

    @precondition(lambda self: self.may_end())
    @rule()
    def drain(self):
        self.pipeline.end_input()

    @precondition(lambda self: self.pipeline.state is State.RECEIVING and self.may_end())
    @rule()
    def peer_finishes(self):
        self.pipeline.received(0)

    @precondition(lambda self: self.may_end())
    @rule()
    def close(self):
        self.pipeline.close()

    # Invariants

    @invariant()
    def no_more_are_in_flight_than_allowed(self):
        assert len(self.in_flight) <= IN_FLIGHT
        if len(self.in_flight) > 1:
            assert all(exchange.is_pipelined for exchange in self.in_flight.values())
            assert sum(self.sizes[number] for number in self.in_flight) <= IN_FLIGHT_BYTES

    @invariant()
    def memory_is_that_of_the_requests_under_way(self):
        assert self.pipeline.memory_bytes == sum(self.taken_bytes.values())

    @invariant()
    def nothing_is_due_after_close(self):
        if self.pipeline.state is State.CLOSED:
            assert self.pipeline.next_reply() is None
            assert self.pipeline.buffer() is None
            assert self.pipeline.unfinished_bytes == 0

    def teardown(self):
        """Draining answers all received requests, unless one failed, and all memory is returned."""
        was_closed = self.pipeline.state is State.CLOSED
        if self.pipeline.state is State.HELD_BACK:
            self.pipeline.go_on()
        self.pipeline.end_input()
        while self.pipeline.state is not State.CLOSED:
            self._finish_one()
        if not was_closed and self.pipeline.failure is None:
            assert len(self.replied) == self.taken
            assert not self.failed
        given_up = [exchange.context for exchange in self.pipeline.give_up()]
        assert sorted(number for number in given_up if number is not None) == sorted(self.taken_bytes)
        assert self.pipeline.memory_bytes == 0

    def _finish_one(self):
        if self.due is not None:
            self.sent()
        elif self.waiting is None:
            self.take()
        if self.waiting is not None and self.pipeline.state is not State.CLOSED:
            self.begin()
        for number in self.unanswered():
            self.answered.add(number)
            self.pipeline.answer(self.in_flight[number], [b"%d" % number])
        if self.due is None:
            self.begin_to_send()


PipelineMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=80, deadline=None)
TestPipeline = PipelineMachine.TestCase
