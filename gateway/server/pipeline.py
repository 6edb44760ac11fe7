"""The requests of one connection without any I/O: bytes in, requests to begin, and their replies out in order.

Theory of operation
-------------------
Kafka handles one request of a connection at a time. This pipeline does the same with one difference, which a client can
see in speed alone: while a Produce waits for the disk, the next Produce is begun. Any other request waits until all
replies before it are out, and nothing begins before its own reply is out.

A driver owns the socket. It receives into `buffer`, says how much came (`received`), and takes one complete request
after the other (`next_request`). For each it says what the request is (`decoded`), waits until it may `begin`, and in
the end gives the reply (`answer`) or the error that there is instead (`fail`), in any order of the requests. What is
due goes out in the order of the requests: `next_reply`, then `replied` once the network has taken it. A request that
failed has its place in that order, too: the connection is closed when all replies before it are out.

The connection is in one of these states:

    from        event        to
    RECEIVING   REQUESTS     HANDLING    at least one request is complete
    HANDLING    BEGUN        RECEIVING   all of them have begun; replies may still be in flight
    RECEIVING   HOLD_BACK    HELD_BACK   the requests of all connections take too much memory
    HELD_BACK   GO_ON        RECEIVING
    any open    END          DRAINING    the peer has finished, a request failed, or the broker stops
    any open    CLOSE        CLOSED      the connection is lost or given up

DRAINING receives nothing more, begins what was received before (unless a request failed), and becomes CLOSED by itself
when the last reply is out. GO_ON may come late, when the connection is draining or closed, and changes nothing then.

Memory is accounted as two numbers that the driver passes on: `memory_bytes` of requests from when they are taken until
their replies are out, and `unfinished_bytes` of a large request that is still being received. Both are 0 in the end.
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
    """What a connection does; see the head of this module."""

    RECEIVING = auto()
    HELD_BACK = auto()
    HANDLING = auto()
    DRAINING = auto()
    CLOSED = auto()


class Event(StrEnum):
    """What moves a connection from one state to another."""

    REQUESTS = auto()
    BEGUN = auto()
    HOLD_BACK = auto()
    GO_ON = auto()
    END = auto()
    CLOSE = auto()


# Looking a member up in an Enum takes longer than most of what happens here.
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
"""From each state, where an event leads. Any other event is a bug of the driver: KeyError."""


@immutable
class Limits:
    """How much one connection may have under way; a single request may be larger than `in_flight_bytes`."""

    request_bytes: int
    in_flight_requests: int
    in_flight_bytes: int


class Exchange(Generic[T]):
    """One request, from its receipt until its reply is sent. `context` belongs to the driver."""

    __slots__ = ("context", "failure", "is_pipelined", "memory_bytes", "reply")

    def __init__(self, memory_bytes: int) -> None:
        self.context: T | None = None
        self.is_pipelined = False
        self.memory_bytes = memory_bytes
        self.reply: Sequence[Buffer] | None = None
        self.failure: Exception | None = None


class Pipeline(Generic[T]):
    """One connection's requests and replies. `failure` is why it was closed; None where nothing went wrong."""

    __slots__ = (
        "_exchanges",
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
        self.memory_bytes = 0
        self.unfinished_bytes = 0
        self._limits = limits
        self._reader = FrameReader(limits.request_bytes)
        # Lists, not deques: both are short, and an idle connection takes half a kilobyte less with each.
        self._received: list[memoryview] = []  # what has not begun, the next request last
        self._exchanges: list[Exchange[T]] = []  # in the order of the requests
        self._taken: Exchange[T] | None = None  # the last of them, until it begins
        self._sending: Exchange[T] | None = None  # the first of them, while its reply goes out

    # Input

    def buffer(self) -> memoryview | None:
        """Where to receive into, never empty; None when nothing more is to be received."""
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
        """So many bytes are in the buffer; 0 says that the peer has finished. Ignored while it is draining."""
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
            self._received = frames  # nothing is left of what was received before
            self.state = TRANSITIONS[RECEIVING][REQUESTS]  # as `_on` does: each request comes through here

    def hold_back(self) -> None:
        """Receive nothing until `go_on`."""
        self._on(HOLD_BACK)

    def go_on(self) -> None:
        """Receive again."""
        self._on(GO_ON)

    def end_input(self) -> None:
        """Receive nothing more; reply to what was received, and close then."""
        self.unfinished_bytes = 0
        self._on(END)
        self._settle()

    def _refuse_input(self, error: ProtocolError) -> None:
        """The stream has lost its boundaries. What came before is replied to."""
        exchange: Exchange[T] = Exchange(0)
        self._exchanges.append(exchange)
        self.fail(exchange, error)

    # Requests

    def next_request(self) -> tuple[Exchange[T], memoryview] | None:
        """Take the next complete request, once the one before has begun; None when more has to be received."""
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
        self._exchanges.append(exchange)
        return exchange, frame

    def decoded(self, exchange: Exchange[T], context: T, is_pipelined: bool, keeps_memory: bool) -> None:
        """Say what was taken. The memory of one that does not keep it is given back now, and not with its reply."""
        exchange.context = context
        exchange.is_pipelined = is_pipelined
        if not keeps_memory:
            self.memory_bytes -= exchange.memory_bytes
            exchange.memory_bytes = 0

    def begin(self, exchange: Exchange[T]) -> bool:
        """Begin the request that was taken last; False while it has to wait, until some reply is out."""
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
            and self.memory_bytes <= limits.in_flight_bytes
        )

    # Replies

    def answer(self, exchange: Exchange[T], reply: Sequence[Buffer]) -> None:
        """Take the reply to a request, as the parts of a frame; none for no reply. Ignored after the close."""
        exchange.reply = reply

    def fail(self, exchange: Exchange[T], error: Exception) -> None:
        """There is no reply: close the connection when those before it are out. Ignored once it is closed."""
        exchange.failure = error
        if exchange is self._taken:
            self._taken = None
        self._received.clear()
        self.end_input()

    def next_reply(self) -> Sequence[Buffer] | None:
        """What to send now; None while a reply is being sent, the next is not there, or the connection is closed."""
        if self._sending is not None or not self._exchanges or self.state is CLOSED:
            return None
        head = self._exchanges[0]
        if head.reply is not None:
            self._sending = head
        return head.reply

    def replied(self) -> Exchange[T]:
        """The network has taken what `next_reply` gave; returns what it was the reply to."""
        done = self._exchanges.pop(0)
        assert done is self._sending, "a reply is out that was not due"
        self._sending = None
        self.memory_bytes -= done.memory_bytes
        if self.state is DRAINING:
            self._settle()
        return done

    def close(self, failure: Exception | None = None) -> None:
        """Close at once. What is in flight is never replied to. Idempotent; the first failure counts."""
        self.unfinished_bytes = 0
        self._on(CLOSE)
        self.failure = self.failure or failure

    def give_up(self) -> Sequence[Exchange[T]]:
        """Forget what a closed connection has in flight; returns it."""
        assert self.state is CLOSED
        given_up, self._exchanges = self._exchanges, []
        self._received.clear()
        self._taken = self._sending = None
        self.memory_bytes = 0
        return given_up

    def _settle(self) -> None:
        """Close when what is left to do is nothing, or a failure."""
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
