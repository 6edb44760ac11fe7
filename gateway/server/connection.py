"""One client's connection: frames in, replies out, in the order in which the requests came.

Requests are handled one at a time, as Kafka does by muting the channel, with one difference that no client can see but
in speed: while produces wait for the disk, the next produce of the same connection is already begun. Any other request
first waits until all earlier replies are out.

    receive ──► split into frames ──► decode ──► handle ──────────────────────► send
                                              └► produce: begin ──► replies ──► send   (in order, when it is on disk)

Replies that come later (to Produce, JoinGroup, SyncGroup) go out from the very call that says that they are there; a
second task, which begins when it is first needed, sends what the network does not take at once.
"""

import errno
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import trio

from odradek.gateway.assembly import Services
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.request_memory import WAITS_FOR_OTHERS
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PeerError, first_error
from odradek.gateway.net.transport import Buffer, Transport
from odradek.gateway.server.dispatch import Call, Dispatcher
from odradek.wire.errors import ProtocolError
from odradek.wire.frames import FrameReader
from odradek.wire.schema.schema import Message

log = logging.getLogger(__name__)

COMMITS_AHEAD: Final = 2
"""How many commits' bytes one connection may have in flight: one under way and one that gathers keep the disk busy."""


class Connection:
    """Serves one transport until the peer leaves, misbehaves or is told to go.

    The server closes connections that are idle, or take nothing of a reply, for too long: `last_active_ms` and
    `stalled_ms`, on the environment's monotonic clock.
    """

    def __init__(self, transport: Transport, listener: str, services: Services, dispatcher: Dispatcher) -> None:
        self.transport = transport
        self.last_active_ms = services.env.monotonic_ms()
        self._stalled_since_ms: int | None = None
        self._stalled_at_bytes = 0
        self._sent_bytes = 0
        self._nursery: trio.Nursery | None = None
        self._listener = listener
        self._services = services
        self._dispatcher = dispatcher
        self._reader = FrameReader(services.config.socket_request_max_bytes)
        self._memory = services.request_memory
        self._begun_bytes = 0
        self._held_bytes = 0
        self._is_held_back = False
        self._replies: deque[tuple[Call, Completion[Any], int]] = deque()
        self._in_flight_bytes = 0
        self._replied = Signal()
        self._unsent: Sequence[Buffer] = ()
        self._failure: Exception | None = None
        self._has_work = Signal()
        self._finishes_replies = False
        self._handling = False
        self._draining = False

    @property
    def busy(self) -> bool:
        """Whether a request is being handled or its reply is under way."""
        return self._handling or bool(self._replies)

    def stalled_ms(self, now_ms: int) -> int:
        """How long the peer has taken nothing of the reply that is being sent, as seen from call to call; else 0."""
        if self._stalled_since_ms is None:
            return 0
        if self.transport.sent_bytes != self._stalled_at_bytes:
            self._stalled_at_bytes = self.transport.sent_bytes
            self._stalled_since_ms = self.last_active_ms = now_ms
        return now_ms - self._stalled_since_ms

    def idle_ms(self, now_ms: int) -> int:
        """How long nothing has come or gone, as seen from call to call; 0 while the broker itself does not read."""
        if self._is_held_back:
            self.last_active_ms = now_ms
        if self.transport.sent_bytes != self._sent_bytes:
            self._sent_bytes = self.transport.sent_bytes
            self.last_active_ms = now_ms
        return now_ms - self.last_active_ms

    @property
    def is_in_a_request(self) -> bool:
        """Whether memory is taken for a request of which not all has come."""
        return self._begun_bytes > 0

    def close(self) -> None:
        """Close at once; what is under way is given up."""
        self.transport.close()
        if self._nursery is not None:  # its task has begun
            self._nursery.cancel_scope.cancel()

    def drain(self) -> None:
        """Answer what is under way, then close; at once when nothing is."""
        self._draining = True
        if self._is_held_back:
            self.close()
        elif not self.busy:
            self.transport.close()

    async def run(self) -> None:
        """Serve until the connection ends. Never raises for what the peer did; logs it and closes."""
        try:
            await self._run()
        except* PeerError as group:
            self._note_closing(first_error(group))
        except* MemoryError:
            self._note_closing(PeerError("no memory for its request (raise ulimit -v, or lower max.connections)"))
        except* OSError as group:
            self._note_ended(first_error(group))
        except* Exception as group:  # our own bug: this client is cut off, everyone else is served on
            log.exception("internal error peer=%s", self.transport.peer, exc_info=first_error(group))
        finally:
            self.transport.close()

    def _note_ended(self, error: BaseException) -> None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            advice = "raise ulimit -n or LimitNOFILE, or lower max.connections"
            self._note_closing(PeerError(f"no descriptor for what its request needs ({advice}): {error}"))
        else:
            log.debug("connection ended peer=%s cause=%s", self.transport.peer, error)

    def _note_closing(self, error: BaseException) -> None:
        kind = error.kind if isinstance(error, PeerError) else ""
        key = ("closing", self.transport.peer_host, kind)
        message = "closing connection peer=%s cause=%s"
        self._services.repeats.note(key, log, logging.WARNING, message, self.transport.peer, error)

    async def _run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            try:
                await self._serve()
                await self._all_replied()
            except PeerError:
                await self._all_replied()  # what came before was good, and Kafka would have answered it
                raise
            finally:
                self._give_up_replies()
                self._memory.end(self)
                self._release(self._held_bytes)
            if self._finishes_replies:
                self._nursery.cancel_scope.cancel()

    def _give_up_replies(self) -> None:
        """Forget what is still waited for: there is nobody to send it to, and no task to begin for it."""
        for call, _, _ in self._replies:
            call.ctx.finish()
        self._replies.clear()

    async def _serve(self) -> None:
        while not self._draining:
            if self._memory.is_full:
                await self._wait_for_memory()
            received = await self._receive()
            self.last_active_ms = self._services.env.monotonic_ms()
            if received == 0:
                break
            await self._handle_all(self._split(received))

    async def _handle_all(self, frames: Sequence[memoryview]) -> None:
        """A call of its own, so that nothing refers to the last frame while the next is waited for."""
        for frame in frames:
            self._handling = True
            if self._begun_bytes:
                self._begun_bytes = 0
                self._memory.end(self)
            else:
                self._hold(len(frame))
            try:
                await self._handle(frame)
            finally:
                self._handling = False

    async def _wait_for_memory(self) -> None:
        self._is_held_back = True
        try:
            await self._memory.room(self)
        finally:
            self._is_held_back = False

    def _note_buffer(self) -> None:
        """Count what the buffer of an unfinished large request has grown to."""
        size_bytes = self._reader.large_buffer_bytes
        if size_bytes != self._begun_bytes:
            grown_bytes = size_bytes - self._begun_bytes
            self._begun_bytes = size_bytes
            self._held_bytes += grown_bytes
            self._memory.grow(self, grown_bytes)

    def _hold(self, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        self._memory.take(size_bytes)

    def _release(self, size_bytes: int) -> None:
        self._held_bytes -= size_bytes
        self._memory.give_back(size_bytes)

    async def _receive(self) -> int:
        """A call of its own, so that nothing refers to the last buffer while memory for the next is waited for."""
        buffer = self._buffer()
        self._note_buffer()
        return await self.transport.receive_into(buffer)

    def _buffer(self) -> memoryview:
        try:
            return self._reader.get_buffer()
        except ProtocolError as error:
            raise PeerError(str(error)) from error

    def _split(self, received: int) -> list[memoryview]:
        try:
            return self._reader.received(received)
        except ProtocolError as error:
            raise PeerError(str(error)) from error

    async def _handle(self, frame: memoryview) -> None:
        if self._dispatcher.is_large(frame):
            call = await self._services.env.run_blocking(lambda: self._open(frame))
        else:
            call = self._open(frame)
        if not call.pipelined or self._is_held_up:
            await self._all_replied()
        held_bytes = len(frame)
        if call.ctx.api_key in WAITS_FOR_OTHERS:
            self._release(held_bytes)
            held_bytes = 0
        if call.deferred:
            await self._begin(call, held_bytes)
            return
        try:
            response = call.canned if call.handler is None else await call.handler(call.ctx, call.request)
            await self._send(call, response)
        finally:
            call.ctx.finish()
            self._release(held_bytes)

    @property
    def _is_held_up(self) -> bool:
        """Whether a reply is waited for behind which nothing may begin; then it is the only one."""
        return bool(self._replies) and not self._replies[0][0].pipelined

    def _open(self, frame: memoryview) -> Call:
        return self._dispatcher.open(frame, self.transport, self._listener)

    async def _begin(self, call: Call, size_bytes: int) -> None:
        """Give a deferred request its place, as soon as fewer than the allowed requests and bytes are in flight."""
        config = self._services.config
        while self._replies and (
            len(self._replies) >= config.connection_max_in_flight_requests
            or self._in_flight_bytes + size_bytes > COMMITS_AHEAD * config.commit_max_bytes
        ):
            await self._replied.wait()
        assert call.handler is not None
        pending = await call.handler(call.ctx, call.request)
        self._replies.append((call, pending, size_bytes))
        self._in_flight_bytes += size_bytes
        pending.on_settled(self._reply_ready)

    def _reply_ready(self, _: Completion[Any]) -> None:
        self._reply_due()

    def _reply_due(self) -> None:
        """Reply whatever is due; the task goes on where the network is slow, and raises what went wrong here."""
        if self._unsent or self._failure is not None:
            return
        try:
            self._reply_in_order()
        except Exception as error:  # noqa: BLE001 - raised by `_finish_replies`
            self._failure = error
        if self._unsent or self._failure is not None:
            self._let_finish()

    def _let_finish(self) -> None:
        if self._finishes_replies:
            self._has_work.wake()
        else:
            assert self._nursery is not None
            self._finishes_replies = True
            self._nursery.start_soon(self._finish_replies)

    def _reply_in_order(self) -> None:
        while self._replies and self._replies[0][1].settled:
            call, pending, _ = self._replies[0]
            response = pending.result()
            if response is not None:
                self._unsent = self.transport.send_now(self._dispatcher.encode(call.ctx, response))
                if self._unsent:
                    return
            self._note_replied()

    def _note_replied(self) -> None:
        call, _, size_bytes = self._replies.popleft()
        call.ctx.finish()
        self._in_flight_bytes -= size_bytes
        self._release(size_bytes)
        self.last_active_ms = self._services.env.monotonic_ms()
        self._replied.wake()
        if self._draining and not self.busy:
            self.transport.close()

    async def _finish_replies(self) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            if self._unsent:
                await self._send_parts(self._unsent)
                self._unsent = ()
                if self._replies:  # unless the connection has just ended, and given them up
                    self._note_replied()
                    self._reply_due()
            else:
                await self._has_work.wait()

    async def _all_replied(self) -> None:
        while self._replies:
            await self._replied.wait()

    async def _send(self, call: Call, response: Message) -> None:
        if call.large or call.ctx.answers_many:
            parts = await self._services.env.run_blocking(lambda: self._dispatcher.encode(call.ctx, response))
        else:
            parts = self._dispatcher.encode(call.ctx, response)
        unsent = self.transport.send_now(parts)
        if unsent:
            await self._send_parts(unsent)

    async def _send_parts(self, parts: Sequence[Buffer]) -> None:
        self._stalled_since_ms = self._services.env.monotonic_ms()
        await self.transport.send_parts(parts)
        self.last_active_ms, self._stalled_since_ms = self._stalled_since_ms, None
