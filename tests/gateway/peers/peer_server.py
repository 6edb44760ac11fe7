"""The server side of a peer under test: the test's script decides how each request is answered."""

from collections.abc import Awaitable, Callable

import trio
from request_frames import decode_request

from odradek.gateway.net.transport import Listener, Transport
from odradek.wire.frames import FrameReader
from odradek.wire.headers import encode_response_parts
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatResponse

Script = Callable[["Received"], Awaitable[None]]


class Received:
    """One request, and the ways to answer it."""

    def __init__(self, transport: Transport, frame: memoryview, number: int) -> None:
        self.header, self.message = decode_request(frame)
        self.transport = transport
        self.number = number
        """The number of the request on its connection, from 1."""

    async def answer(self, correlation_id: int | None = None) -> None:
        """Responds with the request's number, so that swapped responses are detected."""
        correlation = self.header.correlation_id if correlation_id is None else correlation_id
        response = BrokerHeartbeatResponse(error_code=self.number)
        await self.transport.send_parts(encode_response_parts(response, self.header.api_version, correlation))

    async def send(self, data: bytes) -> None:
        await self.transport.send_parts([data])


class PeerServer:
    """Accepts connections on `listener`, and calls `script` for each request in turn."""

    def __init__(self, listener: Listener, script: Script) -> None:
        self.connections: list[Transport] = []
        self.requests: list[Received] = []
        self.accepted_at: list[float] = []
        self.script = script
        self._listener = listener

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    transport = await self._listener.accept()
                except OSError:
                    return
                self.connections.append(transport)
                self.accepted_at.append(trio.current_time())
                nursery.start_soon(self._serve, transport)

    async def _serve(self, transport: Transport) -> None:
        reader, number = FrameReader(1 << 20), 0
        try:
            while received := await transport.receive_into(reader.get_buffer()):
                for frame in reader.received(received):
                    number += 1
                    request = Received(transport, frame, number)
                    self.requests.append(request)
                    await self.script(request)
        except OSError:
            pass
        finally:
            transport.close()


async def answer(request: Received) -> None:
    await request.answer()


async def ignore(_request: Received) -> None:
    """Never answers."""


async def hang_up(request: Received) -> None:
    request.transport.close()
