"""The state machine of one connection's requests, without I/O: takes bytes, gives requests, and orders their replies.

Theory of operation
-------------------
Kafka handles one request of a connection at a time. This pipeline does the same, except that while a Produce waits for
its commit, the next Produce is begun; a client can observe the difference only as speed. Any other request waits until
all replies before it are sent, and no later request begins before the reply to it is sent.

A driver owns the socket. It receives into `buffer`, reports the number of bytes (`received`), and takes one complete
request after the other (`next_request`). For each it reports the decoded request (`decoded`), waits until it may
`begin`, and finally gives the reply (`answer`) or the error instead of one (`fail`); these may come in any order.
Replies are sent in the order of the requests: `next_reply`, then `replied` once the network has accepted it. A request
that failed keeps its place in that order: the connection is closed when all replies before it are sent.

The connection is in one of these states:

    from        event        to
    RECEIVING   REQUESTS     HANDLING    at least one request is complete
    HANDLING    BEGUN        RECEIVING   all of them have begun; replies may still be in flight
    RECEIVING   HOLD_BACK    HELD_BACK   the requests of all connections take too much memory
    HELD_BACK   GO_ON        RECEIVING
    any open    END          DRAINING    the peer has closed its side, a request failed, or the broker stops
    any open    CLOSE        CLOSED      the connection is lost or closed by the broker

DRAINING receives nothing more, begins the requests received before (unless a request failed), and becomes CLOSED when
the last reply is sent. GO_ON may come late, when the connection is draining or closed, and has no effect then.

Memory is accounted as two numbers that the driver passes on: `memory_bytes` of requests from when they are taken until
their replies are sent or they are `handed_on`, and `unfinished_bytes` of a large request that is still being received.
Both are 0 at the end. The limit of bytes in flight is about all requests without a reply, also those handed on.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum, auto
from typing import Final, Generic, TypeVar

from odradek.wire.errors import ProtocolError
from odradek.wire.frames import FrameReader
from odradek.wire.schema.types import Buffer
from odradek.wire.values import immutable

T = TypeVar("T")


class State(StrEnum):
    """The state of a connection; see the module's docstring."""

    RECEIVING = auto()
    HELD_BACK = auto()
    HANDLING = auto()
    DRAINING = auto()
    CLOSED = auto()


class Event(StrEnum):
    """The event that moves a connection from one state to another."""

    REQUESTS = auto()
    BEGUN = auto()
    HOLD_BACK = auto()
    GO_ON = auto()
    END = auto()
    CLOSE = auto()


# Looking up a member of an Enum takes longer than most operations here.
RECEIVING, HELD_BACK, HANDLING, DRAINING, CLOSED = State
REQUESTS, BEGUN, HOLD_BACK, GO_ON, END, CLOSE = Event

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    RECEIVING: {
        REQUESTS: HANDLING,
        HOLD_BACK: HELD_BACK,
        END: DRAINING,
        CLOSE: CLOSED,
    },
    HELD_BACK: {
        GO_ON: RECEIVING,
        END: DRAINING,
        CLOSE: CLOSED,
    },
    HANDLING: {
        BEGUN: RECEIVING,
        END: DRAINING,
        CLOSE: CLOSED,
    },
    DRAINING: {
        GO_ON: DRAINING,
        END: DRAINING,
        CLOSE: CLOSED,
    },
    CLOSED: {
        GO_ON: CLOSED,
        END: CLOSED,
        CLOSE: CLOSED,
    },
}
"""The next state, by state and event. Any other event is a bug of the driver: KeyError."""


@immutable
class Limits:
    """The limits of one connection's requests in flight; a single request may be larger than `in_flight_bytes`."""

    request_bytes: int
    in_flight_requests: int
    in_flight_bytes: int


class Exchange(Generic[T]):
    """One request, from its receipt until its reply is sent. `context` belongs to the driver.

    `is_dropped` is True if it must not begin, since a request before it has failed.
    """

    __slots__ = ("context", "failure", "is_dropped", "is_pipelined", "memory_bytes", "reply", "size_bytes")

    def __init__(self, memory_bytes: int) -> None:
        self.context: T | None = None
        self.is_dropped = False
        self.is_pipelined = False
        self.memory_bytes = self.size_bytes = memory_bytes
        self.reply: Sequence[Buffer] | None = None
        self.failure: Exception | None = None


class Pipeline(Generic[T]):
    """One connection's requests and replies. `failure` is the error that closed it, or None."""

    __slots__ = (
        "_exchanges",
        "_in_flight_bytes",
        "_limits",
        "_reader",
        "_received",
        "_sending",
        "_taken",
        "failure",
        "memory_bytes",
        "state",
        "unfinished_bytes",
    )

    def __init__(self, limits: Limits) -> None:
        self.state = RECEIVING
        self.failure: Exception | None = None
        self.memory_bytes = self._in_flight_bytes = 0
        self.unfinished_bytes = 0
        self._limits = limits
        self._reader = FrameReader(limits.request_bytes)
        # Lists, not deques: both are short, and each makes an idle connection half a kilobyte smaller.
        self._received: list[memoryview] = []  # requests that have not begun, the next one last
        self._exchanges: list[Exchange[T]] = []  # in the order of the requests
        self._taken: Exchange[T] | None = None  # the last of them, until it begins
        self._sending: Exchange[T] | None = None  # the first of them, while its reply is being sent

    # Input

    def buffer(self) -> memoryview | None:
        """The memory to receive into, never empty; None if the connection must not receive."""
        if self.state is not RECEIVING:
            return None
        try:
            buffer = self._reader.get_buffer()
        except ProtocolError as error:
            self._refuse_input(error)
            return None
        self.unfinished_bytes = self._reader.large_buffer_bytes
        return buffer

    def received(self, size: int) -> None:
        """Take `size` bytes that are in the buffer; 0 means that the peer has closed its side.

        Ignored once the connection drains or is closed.
        """
        if self.state is not RECEIVING:
            return
        if not size:
            self.end_input()
            return
        try:
            frames = self._reader.received(size)
        except ProtocolError as error:
            self._refuse_input(error)
            return
        if frames:
            self.unfinished_bytes = 0
            frames.reverse()
            self._received = frames  # it was empty: all requests received before have begun
            self.state = TRANSITIONS[RECEIVING][REQUESTS]  # `_on` inlined: every request passes here

    def hold_back(self) -> None:
        """Receive nothing until `go_on`."""
        self._on(HOLD_BACK)

    def go_on(self) -> None:
        """Receive again."""
        self._on(GO_ON)

    def end_input(self) -> None:
        """Receive nothing more; close after replying to the requests received so far."""
        self.unfinished_bytes = 0
        self._on(END)
        self._settle()

    def _refuse_input(self, error: ProtocolError) -> None:
        """Fail the connection: frame boundaries are lost. Requests received before are replied to."""
        exchange: Exchange[T] = Exchange(0)
        self._exchanges.append(exchange)
        self.fail(exchange, error)

    # Requests

    def next_request(self) -> tuple[Exchange[T], memoryview] | None:
        """Take the next complete request, once the one before has begun; None if there is none."""
        assert self._taken is None, "the request before has not begun"
        if not self._received:
            if self.state is not HANDLING:
                self._settle()
                return None
            self.state = TRANSITIONS[HANDLING][BEGUN]
            if self._reader.fault is not None:
                self._refuse_input(self._reader.fault)
            return None
        frame = self._received.pop()
        size_bytes = len(frame)
        exchange: Exchange[T] = Exchange(size_bytes)  # `Exchange[T](…)` costs seven times as much
        self._taken = exchange
        self.memory_bytes += size_bytes
        self._in_flight_bytes += size_bytes
        self._exchanges.append(exchange)
        return exchange, frame

    def decoded(self, exchange: Exchange[T], context: T, is_pipelined: bool, keeps_memory: bool) -> None:
        """Set the properties of the request taken last. If it does not keep its memory, that is released now."""
        exchange.context = context
        exchange.is_pipelined = is_pipelined
        if not keeps_memory:
            self.handed_on(exchange)

    def handed_on(self, exchange: Exchange[T]) -> None:
        """Note that the request's bytes are not used any more, or count elsewhere, although its reply is not sent."""
        self.memory_bytes -= exchange.memory_bytes
        exchange.memory_bytes = 0

    def begin(self, exchange: Exchange[T]) -> bool:
        """Begin the request that was taken last; False if it has to wait until a reply is sent, or is dropped."""
        if exchange.is_dropped:
            return False
        assert exchange is self._taken
        if len(self._exchanges) > 1 and not self._may_be_beside_others(exchange):
            return False
        self._taken = None
        return True

    def _may_be_beside_others(self, exchange: Exchange[T]) -> bool:
        limits = self._limits
        return (
            exchange.is_pipelined
            and self._exchanges[0].is_pipelined
            and len(self._exchanges) <= limits.in_flight_requests
            and self._in_flight_bytes <= limits.in_flight_bytes
        )

    # Replies

    def answer(self, exchange: Exchange[T], reply: Sequence[Buffer]) -> None:
        """Set the reply to a request, as the parts of a frame; empty for no reply. Ignored after the close."""
        exchange.reply = reply

    def fail(self, exchange: Exchange[T], error: Exception) -> None:
        """Fail a request: the connection is closed when the replies before it are sent. Ignored once it is closed.

        Requests after it do not begin: the client gets no reply to them, and sends them again.
        """
        exchange.failure = error
        taken, self._taken = self._taken, None
        if taken is not None and taken is not exchange:
            self._exchanges.remove(taken)
            self.handed_on(taken)
            self._in_flight_bytes -= taken.size_bytes
            taken.is_dropped = True
        self._received.clear()
        self.end_input()

    def next_reply(self) -> Sequence[Buffer] | None:
        """The reply to send now; None while one is being sent, the next is not ready, or the connection is closed."""
        if self._sending is not None or not self._exchanges or self.state is CLOSED:
            return None
        head = self._exchanges[0]
        if head.reply is not None:
            self._sending = head
        return head.reply

    def replied(self) -> Exchange[T]:
        """Note that the network has accepted the reply of `next_reply`; returns its exchange."""
        done = self._exchanges.pop(0)
        assert done is self._sending, "a reply is out that was not due"
        self._sending = None
        self.memory_bytes -= done.memory_bytes
        self._in_flight_bytes -= done.size_bytes
        if self.state is DRAINING:
            self._settle()
        return done

    def close(self, failure: Exception | None = None) -> None:
        """Close at once; requests in flight get no reply. Idempotent; the first failure is kept."""
        self.unfinished_bytes = 0
        self._on(CLOSE)
        self.failure = self.failure or failure

    def give_up(self) -> Sequence[Exchange[T]]:
        """Remove and return the exchanges in flight of a closed connection."""
        assert self.state is CLOSED
        given_up, self._exchanges = self._exchanges, []
        self._received.clear()
        self._taken = self._sending = None
        self.memory_bytes = self._in_flight_bytes = 0
        return given_up

    def _settle(self) -> None:
        """Close a draining connection if nothing is left to reply to, or the next reply is a failure."""
        if self.state is not DRAINING:
            return
        if not self._exchanges:
            if not self._received:
                self._on(CLOSE)
        elif (failure := self._exchanges[0].failure) is not None:
            self.failure = failure
            self._on(CLOSE)

    def _on(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]
