"""Drives one connection: moves bytes between its transport and its pipeline, and requests to their handlers.

    receive ──► pipeline ──► decode ──► handle ─────────────────────────► pipeline ──► send
                                     └► begin ──► completion settled ──►

All decisions about order, limits and the end of the connection are the pipeline's. A worker (`server/workers.py`) calls
`serve` when there is input, which receives and handles it. A deferred reply (`dispatch.DEFERRED`, such as Produce) is
sent by the call that settles its completion, without a task switch; a separate task sends only the part that the
network does not accept at once.

A connection ends when its pipeline is closed and no task works for it any more. Then nothing refers to resources that
its replies use, and they are released.
"""

import errno
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from odradek.gateway.assembly import Services
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PeerError
from odradek.gateway.net.transport import Buffer, Transport
from odradek.gateway.server.activity import Activity
from odradek.gateway.server.context import RequestContext
from odradek.gateway.server.dispatch import LARGE_FRAME_BYTES, Dispatcher
from odradek.gateway.server.pipeline import CLOSED, HELD_BACK, RECEIVING, Exchange, Limits, Pipeline
from odradek.gateway.server.session import Session
from odradek.gateway.server.workers import Worker, Workers
from odradek.wire.errors import ProtocolError

log = logging.getLogger(__name__)

COMMITS_AHEAD: Final = 2
"""The number of commits whose bytes one connection may have in flight: one running and one filling keep a disk busy."""

OUT_OF_DESCRIPTORS: Final = frozenset(
    {errno.EMFILE, errno.WSAEMFILE, errno.WSAENOBUFS} if sys.platform == "win32" else {errno.EMFILE, errno.ENFILE}
)


class ConnectionDriver:
    """Serves one transport until the peer disconnects or violates the protocol, or the server closes or drains it."""

    __slots__ = (
        "_activity",
        "_dispatcher",
        "_env",
        "_has_ended",
        "_is_failure_logged",
        "_is_sending",
        "_memory",
        "_on_end",
        "_pipeline",
        "_repeats",
        "_replied",
        "_request_memory",
        "_request_times",
        "_session",
        "_settings",
        "_worker",
        "_workers",
        "transport",
    )

    def __init__(
        self,
        transport: Transport,
        listener: str,
        services: Services,
        dispatcher: Dispatcher,
        workers: Workers,
        on_end: Callable[["ConnectionDriver"], None],
    ) -> None:
        config = services.config
        self.transport = transport
        self._env = services.env
        self._settings = services.settings
        self._repeats = services.repeats
        self._dispatcher = dispatcher
        node = config.node
        self._session = Session(
            transport.peer,
            transport.peer_host,
            listener,
            listener in node.controller_listener_names,
            node.is_for_nodes(listener),
        )
        self._pipeline = Pipeline[RequestContext](
            Limits(
                request_bytes=config.socket_request_max_bytes,
                in_flight_requests=config.connection_max_in_flight_requests,
                in_flight_bytes=COMMITS_AHEAD * config.commit_max_bytes,
            )
        )
        self._request_memory = services.request_memory
        self._request_times = services.request_times
        self._memory = services.request_memory.account()
        self._activity = Activity(transport, services.env.monotonic_ms())
        self._replied = Signal()
        self._workers = workers
        self._on_end = on_end
        self._worker: Worker | None = None  # the task that serves it now
        self._is_sending = False  # a task sends the rest of a reply
        self._has_ended = False
        self._is_failure_logged = False

    # Called by the server

    def start(self) -> None:
        """Begin to serve. Raises OSError when the system cannot poll one more connection."""
        self._workers.watch(self, self.transport)

    def close(self) -> None:
        """Close at once; requests in flight are dropped."""
        self._pipeline.close()
        self._close_if_done()

    def drain(self) -> None:
        """Answer the requests in flight, then close; close at once if there are none."""
        self._pipeline.end_input()
        self._close_if_done()

    @property
    def listener(self) -> str:
        """The name of the listener that accepted it."""
        return self._session.listener

    @property
    def peer_host(self) -> str:
        """The client's address, without the port."""
        return self.transport.peer_host

    @property
    def is_closed(self) -> bool:
        """True if it is closed; tasks may still work for it."""
        return self._pipeline.state is CLOSED

    def idle_ms(self, now_ms: int) -> int:
        """The time since bytes were last sent or received."""
        return self._activity.idle_ms(now_ms)

    def stale_cause(self, now_ms: int) -> str | None:
        """The reason to close the connection as stale, for the log; None if it is not stale."""
        config = self._settings.config
        if self._pipeline.state is HELD_BACK:
            self._activity.last_ms = now_ms  # the broker does not read, so the client is not idle
        if self._activity.stalled_ms(now_ms) > config.connection_write_timeout_ms:
            return "it takes none of its replies (odradek.connection.write.timeout.ms)"
        idle_ms = self._activity.idle_ms(now_ms)
        holds_memory = self._pipeline.unfinished_bytes > 0 and self._request_memory.is_full
        if holds_memory and idle_ms > config.connection_write_timeout_ms:
            return "it does not end its request while others wait for memory (queued.max.request.bytes)"
        if 0 <= config.connections_max_idle_ms < idle_ms:
            return "idle (connections.max.idle.ms)"
        return None

    # Requests

    async def serve(self, worker: Worker) -> bool:
        """Receive once and handle the requests that arrived; True if there may be more to receive.

        Never raises because of the peer's input or an internal error: the connection is closed, and the cause is
        logged.
        """
        if self._worker is not None:
            return False  # that task also handles the new input
        self._worker = worker
        try:
            if self._request_memory.is_full and not self._session.is_of_nodes:
                await self._wait_for_memory()
            if self._receive():
                await self._handle_received(worker)
        except Exception as error:  # noqa: BLE001 - an error must not end the other connections
            self._pipeline.close(error)
        finally:
            self._worker = None
            if self._memory.taken_bytes or self._pipeline.memory_bytes or self._pipeline.unfinished_bytes:
                self._account()
            if self._pipeline.state is CLOSED:
                self._close_if_done()
        return self._pipeline.state is RECEIVING and self.transport.may_have_more

    def begins_to_wait(self) -> None:
        """See `workers.Connection`."""
        self._account()

    def _receive(self) -> bool:
        """Receive once; False if there is nothing to receive, or the connection does not receive now.

        A separate method, so that no local variable keeps the last buffer alive while the connection waits for memory
        for the next.
        """
        pipeline = self._pipeline
        buffer = pipeline.buffer()
        if buffer is None:
            return False
        if pipeline.unfinished_bytes and not self._is_served_by_leader:
            self._account()
        received = self.transport.receive_now(buffer)
        if received is None:
            return False
        pipeline.received(received)
        self._activity.received_count += 1
        return True

    async def _wait_for_memory(self) -> None:
        if self._pipeline.state is RECEIVING:
            self._pipeline.hold_back()
            await self._memory.room()
            self._pipeline.go_on()

    async def _handle_received(self, worker: Worker) -> None:
        """Handle the received requests, in their order.

        A separate method, so that no local variable keeps the last request alive while the connection waits for the
        next.
        """
        pipeline = self._pipeline
        while (taken := pipeline.next_request()) is not None:
            if not worker.is_leader:
                self._account()
            try:
                await self._handle(*taken)
            except Exception as error:  # noqa: BLE001 - logged at the end, when the replies before are out
                pipeline.fail(taken[0], error)
                self._send_on()

    async def _handle(self, exchange: Exchange[RequestContext], frame: memoryview) -> None:
        pipeline, dispatcher = self._pipeline, self._dispatcher
        is_large = len(frame) > LARGE_FRAME_BYTES and dispatcher.is_large(frame)
        if is_large:
            ctx, request, route = await self._env.run_blocking(partial(dispatcher.open, frame, self._session))
        else:
            ctx, request, route = dispatcher.open(frame, self._session)
        pipeline.decoded(exchange, ctx, route.is_pipelined, route.keeps_memory)
        if not route.keeps_memory and not self._is_served_by_leader:
            self._account()
        while not pipeline.begin(exchange):
            if exchange.is_dropped:
                return
            await self._replied.wait()
        response = await route.handle(ctx, request)
        if route.is_deferred:
            if pipeline.state is not CLOSED:
                pipeline.handed_on(exchange)  # `Backlog` counts what is being written
            completion: Completion[Any] = response
            completion.on_settled(partial(self._settled, exchange, ctx))
            return
        if is_large or ctx.answers_many:
            reply = await self._env.run_blocking(partial(ctx.encode, response))
        else:
            reply = ctx.encode(response)
        pipeline.answer(exchange, reply)
        self._request_times.answered(ctx.api_key, ctx.api_version, ctx.began_us, ctx.kind)
        unsent = self._send_due()
        if unsent:
            await self._send_rest(unsent)

    # Replies

    def _settled(self, exchange: Exchange[RequestContext], ctx: RequestContext, completion: Completion[Any]) -> None:
        """Take the response, or the error, of a deferred request. Must not raise."""
        if self._pipeline.state is CLOSED:
            return
        try:
            response = completion.result()
            self._pipeline.answer(exchange, () if response is None else ctx.encode(response))
            self._request_times.answered(ctx.api_key, ctx.api_version, ctx.began_us, ctx.kind)
        except Exception as error:  # noqa: BLE001 - logged at the end, when the replies before are out
            self._pipeline.fail(exchange, error)
        self._send_on()

    def _send_on(self) -> None:
        """Send the replies that are due; a new task sends what the network does not accept at once."""
        unsent = self._send_due()
        if unsent:
            self._is_sending = True
            self._workers.start_soon(self._send_in_task, unsent)

    async def _send_in_task(self, unsent: Sequence[Buffer]) -> None:
        try:
            await self._send_rest(unsent)
        except Exception as error:  # noqa: BLE001 - an error must not end the other connections
            self._pipeline.close(error)
        finally:
            self._is_sending = False
            if self._pipeline.state is CLOSED:
                self._close_if_done()

    def _send_due(self) -> Sequence[Buffer]:
        """Send the replies that are due; returns the rest of one that the network does not accept at once.

        Errors of the network close the connection.
        """
        pipeline = self._pipeline
        while (reply := pipeline.next_reply()) is not None:
            try:
                unsent = self.transport.send_now(reply) if reply else ()
            except OSError as error:
                pipeline.close(error)
                break
            if unsent:
                return unsent
            self._note_replied()
        if pipeline.state is CLOSED:
            self._close_if_done()
        return ()

    async def _send_rest(self, unsent: Sequence[Buffer]) -> None:
        """Send the rest of a reply as fast as the peer receives it, and replies due meanwhile. Raises OSError."""
        while unsent:
            self._activity.send_began(self._env.monotonic_ms())
            await self.transport.send_parts(unsent)
            self._activity.send_ended()
            self._note_replied()
            unsent = self._send_due()

    def _note_replied(self) -> None:
        context = self._pipeline.replied().context
        if context is not None and context.on_sent:
            context.finish()
        worker = self._worker
        if worker is None or not worker.is_leader:  # while the leader serves the connection, no task waits for a reply
            self._account()
            self._replied.wake()

    # Memory accounting and close

    @property
    def _is_served_by_leader(self) -> bool:
        """True if the leader serves it: no other task runs, and it accounts when it begins to wait or is done."""
        return self._worker is not None and self._worker.is_leader

    def _account(self) -> None:
        """Account for the memory of this connection's requests."""
        self._memory.set(self._pipeline.memory_bytes, self._pipeline.unfinished_bytes)

    def _close_if_done(self) -> None:
        """Close the transport of a closed connection and end its tasks; the last of them ends the connection."""
        if self._pipeline.state is not CLOSED or self._has_ended:
            return
        self._log_failure()
        self._workers.unwatch(self.transport)
        self.transport.close()
        if self._worker is not None:
            self._worker.interrupt()
        elif not self._is_sending:
            self._has_ended = True
            self._end()

    def _end(self) -> None:
        for given_up in self._pipeline.give_up():
            _finish(given_up)
        self._account()
        self._pipeline.failure = None  # its traceback refers to this connection, a cycle for the garbage collector
        self._on_end(self)

    def _log_failure(self) -> None:
        """Log the cause of the close, once, and before the peer can notice it."""
        failure = self._pipeline.failure
        if failure is not None and not self._is_failure_logged:
            self._is_failure_logged = True
            self._log_end(failure)

    def _log_end(self, error: Exception) -> None:
        if isinstance(error, PeerError | ProtocolError):
            self._log_closing(PeerError(str(error)))
        elif isinstance(error, MemoryError):
            self._log_closing(PeerError("no memory for its request (raise ulimit -v, or lower max.connections)"))
        elif isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            advice = "raise ulimit -n or LimitNOFILE, or lower max.connections"
            self._log_closing(PeerError(f"no descriptor for what its request needs ({advice}): {error}"))
        elif isinstance(error, OSError):
            log.debug("connection ended peer=%s cause=%s", self._session.peer, error)
        else:  # our own bug: this client is disconnected, all others are still served
            log.error("internal error peer=%s", self._session.peer, exc_info=error)

    def _log_closing(self, error: PeerError) -> None:
        key = ("closing", self._session.peer_host, error.kind)
        message = "closing connection peer=%s cause=%s"
        self._repeats.note(key, log, logging.WARNING, message, self._session.peer, error)


def _finish(exchange: Exchange[RequestContext]) -> None:
    """Release the resources that the reply used."""
    if exchange.context is not None and exchange.context.on_sent:
        exchange.context.finish()
