"""Another node by its id: calls to it, over a connection that is made when needed and made again when it is lost.

idle ──call──► connecting ──dialled──► connected ──lost──► idle
                   └──dial failed──► idle                    (back-off before the next dial)
"""

import logging
from typing import Final

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.net.transport import Transport
from odradek.gateway.peers.connection import PeerConnection
from odradek.gateway.peers.errors import PeerCallError, PeerDisconnectedError, PeerTimedOutError
from odradek.gateway.peers.limits import PeerLimits
from odradek.wire.schema.schema import Message

log = logging.getLogger(__name__)

JITTER: Final = 0.2
MAX_DOUBLINGS: Final = 16


class Peer:
    """Node `node_id` at `host:port`.

    Its tasks run in `nursery`; `client_id` identifies this node in the other's log.
    """

    def __init__(
        self,
        env: Environment,
        nursery: trio.Nursery,
        node_id: int,
        endpoint: tuple[str, int],
        client_id: str,
        limits: PeerLimits | None = None,
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self._env = env
        self._nursery = nursery
        self._client_id = client_id
        self._limits = limits or PeerLimits()
        self._slots = trio.Semaphore(self._limits.max_in_flight)
        self._connection: PeerConnection | None = None
        self._connecting: Completion[PeerConnection] | None = None
        self._failures = 0
        self._not_before_ms = 0
        self._is_closed = False
        self._is_reachable = True

    async def call(self, request: Message, version: int, timeout_ms: int) -> Message:
        """Send `request` in `version`, and wait up to `timeout_ms` for its response. Raises PeerCallError.

        After an error, and after cancellation, the request may or may not have been carried out. A time-out ends the
        connection and all calls that wait on it; cancellation does not. Raises UnsupportedVersionError for a version
        that the message does not have.
        """
        used: PeerConnection | None = None
        with trio.move_on_after(timeout_ms / 1000):
            await self._slots.acquire()
            try:
                used = await self._connected()
                response = used.begin(request, version)
            except BaseException:
                self._slots.release()
                raise
            response.on_settled(lambda _: self._slots.release())
            return await response.wait()
        error = PeerTimedOutError(self.node_id, f"no response to {type(request).__name__} within {timeout_ms} ms")
        late = used or self._connection  # a call that got no slot was held up by earlier requests on the connection
        if late is not None:
            late.lose(error)
        raise error

    def move(self, endpoint: tuple[str, int]) -> None:
        """Call the node at `endpoint` from now on. If it differs, calls in flight fail."""
        if endpoint != self.endpoint:
            self._disconnect(f"it has moved from {self._address()}")
            self.endpoint = endpoint
            self._failures = self._not_before_ms = 0

    def close(self) -> None:
        """Close the connection; waiting calls, and every later call, fail with PeerDisconnectedError. Idempotent."""
        self._is_closed = True
        self._disconnect("closed on our side")

    def _disconnect(self, cause: str) -> None:
        error = PeerDisconnectedError(self.node_id, cause)
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.fail(error)
        if self._connection is not None:
            self._connection.lose(error)

    def _address(self) -> str:
        host, port = self.endpoint
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # Connecting

    async def _connected(self) -> PeerConnection:
        """The connection. Concurrent callers share one dial, which continues if a caller is cancelled."""
        if self._is_closed:
            raise PeerDisconnectedError(self.node_id, "closed on our side")
        if self._connection is not None:
            return self._connection
        if self._connecting is None:
            self._connecting = Completion()
            self._nursery.start_soon(self._connect, self._connecting)
        return await self._connecting.wait()

    async def _connect(self, connecting: Completion[PeerConnection]) -> None:
        try:
            transport = await self._dial(connecting)
        except OSError as error:
            self._give_up(connecting, PeerDisconnectedError(self.node_id, f"cannot reach {self._address()}: {error}"))
        except trio.TooSlowError:
            self._give_up(connecting, PeerDisconnectedError(self.node_id, f"cannot reach {self._address()}: no answer"))
        except trio.Cancelled:
            self._give_up(connecting, PeerDisconnectedError(self.node_id, "this node stops"))
            raise
        else:
            if transport is not None:
                self._use(connecting, transport)

    async def _dial(self, connecting: Completion[PeerConnection]) -> Transport | None:
        """A new transport, once the back-off is over; None if it is no longer wanted. Raises OSError."""
        await trio.sleep(max(self._not_before_ms - self._env.monotonic_ms(), 0) / 1000)
        if connecting.settled:
            return None
        with trio.fail_after(self._limits.connect_timeout_ms / 1000):
            transport = await self._env.dial(*self.endpoint)
        if connecting.settled:  # the peer was moved or closed meanwhile
            transport.close()
            return None
        return transport

    def _use(self, connecting: Completion[PeerConnection], transport: Transport) -> None:
        self._connection = PeerConnection(
            self.node_id,
            transport,
            self._client_id,
            self._limits.max_response_bytes,
            self._on_answered,
            self._on_lost,
        )
        self._connection.start(self._nursery)
        self._connecting = None
        connecting.settle(self._connection)

    def _give_up(self, connecting: Completion[PeerConnection], error: PeerCallError) -> None:
        if connecting.settled:
            return
        self._connecting = None
        self._back_off(error)
        connecting.fail(error)

    def _on_answered(self, connection: PeerConnection) -> None:
        """Note that the node is reachable again. A connection alone does not show it: a process may hang."""
        if not self._is_reachable:
            self._is_reachable = True
            log.info("connected node_id=%d peer=%s client_id=%s", self.node_id, connection.peer, self._client_id)

    def _on_lost(self, connection: PeerConnection, error: PeerCallError) -> None:
        self._connection = None
        if connection.has_answered:
            self._failures = 0
        self._back_off(error)

    def _back_off(self, error: PeerCallError) -> None:
        """Delay the next dial, longer after each consecutive failure, up to the maximum."""
        if self._is_reachable and not self._is_closed:
            self._is_reachable = False
            log.info("disconnected client_id=%s cause=%s", self._client_id, error)
        limits = self._limits
        pause_ms = min(limits.backoff_ms << min(self._failures, MAX_DOUBLINGS), limits.backoff_max_ms)
        self._failures += 1
        spread = self._env.random.uniform(1 - JITTER, 1 + JITTER)
        self._not_before_ms = self._env.monotonic_ms() + round(pause_ms * spread)
