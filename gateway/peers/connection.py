"""One connection to another node: sends requests, and matches each response to the oldest waiting request.

A lost connection is not used again.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.signals import Signal
from odradek.gateway.net.transport import Buffer, Transport
from odradek.gateway.peers.errors import PeerCallError, PeerDisconnectedError, PeerRequestError, PeerResponseError
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import EncodeError, ProtocolError
from odradek.wire.frames import FrameReader
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.schema.schema import Message

log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A request that was sent and has no response yet."""

    correlation_id: int
    key: ApiKey
    version: int
    response: Completion[Message]


class PeerConnection:
    """A connection to node `node_id` over `transport`.

    `on_answered` is called once, before the first response settles its request, and `on_lost` once, when the
    connection can no longer be used.
    """

    def __init__(
        self,
        node_id: int,
        transport: Transport,
        client_id: str,
        max_response_bytes: int,
        on_answered: Callable[["PeerConnection"], None],
        on_lost: Callable[["PeerConnection", PeerCallError], None],
    ) -> None:
        self.node_id = node_id
        self.has_answered = False
        self.peer = transport.peer
        self._transport = transport
        self._client_id = client_id
        self._reader = FrameReader(max_response_bytes)
        self._on_answered = on_answered
        self._on_lost = on_lost
        self._correlation_ids = count(1)
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[Buffer] = []
        self._is_sending = False
        self._to_send = Signal()
        self._lost: PeerCallError | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Send and receive in tasks of `nursery`; when that is cancelled, the connection is lost."""
        nursery.start_soon(self._until_lost, self._receive)
        nursery.start_soon(self._until_lost, self._send)

    def begin(self, request: Message, version: int) -> Completion[Message]:
        """Send a request. The completion fails with the PeerCallError that ended the connection.

        Raises PeerRequestError for a message that cannot be encoded, UnsupportedVersionError for a version that the
        message does not have; nothing is sent then.
        """
        response: Completion[Message] = Completion()
        if self._lost is not None:
            response.fail(self._lost)
            return response
        correlation_id = next(self._correlation_ids)
        try:
            frame = encode_request(request, version, correlation_id, self._client_id)
        except EncodeError as error:
            log.exception("a request was not sent node_id=%d", self.node_id)
            raise PeerRequestError(self.node_id, str(error)) from error
        key = ApiKey(request.__message__.api_key or 0)
        self._waiting.append(_Waiting(correlation_id, key, version, response))
        self._write(frame)
        return response

    def _write(self, frame: bytes) -> None:
        """Send what the network accepts at once, and leave the rest to the sending task."""
        if self._is_sending:
            self._unsent.append(frame)
            return
        try:
            left = self._transport.send_now([frame])
        except OSError as error:
            self.lose(self._broken(error))
            return
        if left:
            self._unsent.extend(left)
            self._is_sending = True
            self._to_send.wake()

    async def _send(self) -> None:
        while self._lost is None:
            await self._to_send.wait()
            while self._unsent:
                parts, self._unsent = self._unsent, []
                await self._transport.send_parts(parts)
            self._is_sending = False

    async def _receive(self) -> None:
        while True:
            received = await self._transport.receive_into(self._reader.get_buffer())
            if not received:
                raise ConnectionAbortedError("it closed the connection")
            for frame in self._reader.received(received):
                self._take(frame)

    def _take(self, frame: memoryview) -> None:
        """Settle the oldest request with its response. Raises PeerResponseError, ProtocolError."""
        if not self._waiting:
            raise PeerResponseError(self.node_id, "a response came that no request waits for")
        oldest = self._waiting[0]
        found = int.from_bytes(frame[:4], "big", signed=True)
        if found != oldest.correlation_id:
            expected = oldest.correlation_id
            raise PeerResponseError(self.node_id, f"a response has correlation id {found} instead of {expected}")
        _, response = decode_response(oldest.key, oldest.version, frame)
        self._waiting.popleft()
        if not self.has_answered:
            self.has_answered = True
            self._on_answered(self)
        oldest.response.settle(response)

    async def _until_lost(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError as error:
            self.lose(self._broken(error))
        except ProtocolError as error:
            self.lose(PeerResponseError(self.node_id, f"malformed response: {error}"))
        except PeerResponseError as error:
            self.lose(error)
        finally:
            self.lose(PeerDisconnectedError(self.node_id, "this node stops"))

    def _broken(self, error: OSError) -> PeerDisconnectedError:
        return PeerDisconnectedError(self.node_id, f"connection to {self.peer} lost: {error}")

    def lose(self, error: PeerCallError) -> None:
        """Close the connection, and fail all calls in flight with `error`. Idempotent.

        With calls in flight the connection is reset, which discards requests that the node has not received: the caller
        may repeat a call over another connection, and the first request must not be carried out after the second.
        """
        if self._lost is not None:
            return
        self._lost = error
        if self._waiting:
            self._transport.abort()
        else:
            self._transport.close()
        self._to_send.wake()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, deque[_Waiting]()
        self._on_lost(self, error)
        for each in waiting:
            each.response.fail(error)
