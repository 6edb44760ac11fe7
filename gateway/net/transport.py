"""Byte transports: the protocols that a connection uses, and their implementation for TCP on Trio.

The simulation's in-memory network implements the same two protocols and passes the same tests
(`tests/gateway/test_network.py`).
"""

import errno
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from odradek.facilities import has
from odradek.gateway.net.descriptors import first_reserved
from odradek.gateway.net.sending import send_many

Buffer = bytes | bytearray | memoryview

MAX_IOVEC = 512
"""Maximum number of parts in one sendmsg call; Linux and macOS refuse more than 1024."""
LISTEN_BACKLOG = 1024
ACCEPTS_IN_A_ROW = 16
"""The number of connections accepted before other tasks are scheduled."""

_LINGER_0_S = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
"""SO_LINGER of no time: a close resets the connection."""


class DescriptorReserveError(OSError):
    """A connection was closed as it was accepted: the remaining descriptors are reserved for logs."""


class Transport(Protocol):
    """A two-way byte stream. One task may receive while another sends."""

    @property
    def peer(self) -> str:
        """The peer's address as `host:port`, for logs."""
        ...

    @property
    def peer_host(self) -> str:
        """The peer's host alone, as DescribeGroups shows it."""
        ...

    @property
    def sent_bytes(self) -> int:
        """The number of bytes that the network has accepted so far; it grows while a long send makes progress."""
        ...

    @property
    def may_have_more(self) -> bool:
        """False if `receive_now` would find nothing; the poller then reports when there is input."""
        ...

    async def receive_into(self, buffer: memoryview) -> int:
        """Wait for bytes and write them to `buffer`; returns the count, or 0 when the peer has closed its side.

        Raises OSError when the connection broke. A cancelled call has received nothing. Not for a transport that is
        registered with a poller.
        """
        ...

    def receive_now(self, buffer: memoryview) -> int | None:
        """Write received bytes to `buffer`; returns None if there are none, 0 when the peer has closed its side.

        For a transport that is registered with a poller. Raises OSError when the connection broke.
        """
        ...

    async def send_parts(self, parts: Sequence[Buffer]) -> None:
        """Send all parts in order.

        Raises OSError. After cancellation the connection is unusable: some bytes may be sent.
        """
        ...

    def send_now(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send what the network accepts at once; return the rest, for `send_parts`, or an empty sequence.

        Raises OSError. Not while another send is under way.
        """
        ...

    def close(self) -> None:
        """Close now; receives and sends in progress fail. Idempotent.

        The network goes on delivering what it has accepted, also over an interruption.
        """
        ...

    def abort(self) -> None:
        """Close now and reset the peer, which receives nothing that has not reached it yet. Idempotent."""
        ...


class Listener(Protocol):
    """A bound address that clients connect to."""

    @property
    def address(self) -> tuple[str, int]:
        """The bound host and port."""
        ...

    async def accept(self) -> Transport:
        """Wait for the next connection.

        Raises OSError (for example when there are no file descriptors left), and DescriptorReserveError before that.
        """
        ...

    def close(self) -> None:
        """Stop listening. Idempotent."""
        ...


class TcpTransport:
    """A TCP connection: receives straight into the caller's buffer, sends many parts with one system call.

    It uses the operating system's socket itself: Trio's socket costs as much again as the system calls.
    """

    __slots__ = (
        "_is_more_likely",
        "_is_new",
        "_sock",
        "has_ended",
        "may_have_more",
        "number",
        "peer",
        "peer_host",
        "sent_bytes",
    )

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self.number = sock.fileno()
        self._is_new = True
        self._is_more_likely = False
        self.may_have_more = False  # also set by the poller
        self.has_ended = False  # set by the poller: the peer has closed its side
        self.sent_bytes = 0
        self.peer_host, self.peer = _peer_names(sock)

    @property
    def is_closed(self) -> bool:
        """True if it was closed on our side; `number` may then belong to another connection."""
        return self._sock.fileno() < 0

    def receive_now(self, buffer: memoryview) -> int | None:
        """Receive without waiting.

        A receive that does not fill its buffer has emptied the socket, except for the end of the stream.
        """
        if not self.may_have_more:
            return None
        try:
            received = self._sock.recv_into(buffer)
        except BlockingIOError:
            self.may_have_more = False
            return None
        if received < len(buffer) and not self.has_ended:
            self.may_have_more = False
        return received

    async def receive_into(self, buffer: memoryview) -> int:
        """Receive what is there, up to the buffer's length.

        It waits for readability first, since a client that has received its replies usually sends nothing, and a
        receive that finds nothing wastes a system call. It does not for the first receive, since clients send at once
        when they have connected, nor after a receive that filled its buffer.
        """
        try:
            if self._is_new:
                self._is_new = False
                await trio.lowlevel.checkpoint_if_cancelled()
            elif self._is_more_likely:
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_readable(self._open())
            received = await self._receive_into(buffer)
        except trio.ClosedResourceError as error:
            raise ConnectionAbortedError("closed on our side") from error
        self._is_more_likely = received == len(buffer)
        return received

    async def _receive_into(self, buffer: memoryview) -> int:
        while True:
            try:
                return self._open().recv_into(buffer)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._sock)

    async def send_parts(self, parts: Sequence[Buffer]) -> None:
        """Send with sendmsg until all is sent.

        Yields to other tasks only if the peer is slow or the task is cancelled.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            for start in range(0, len(parts), MAX_IOVEC):
                await self._send(parts[start : start + MAX_IOVEC])
        except trio.ClosedResourceError as error:
            raise ConnectionAbortedError("closed on our side") from error

    async def _send(self, parts: Sequence[Buffer]) -> None:
        left = sum(map(len, parts))
        while left:
            try:
                sent = send_many(self._open(), parts)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
                continue
            self.sent_bytes += sent
            left -= sent
            if left:
                parts = _after(parts, sent)

    def send_now(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send with one system call, and so at most `MAX_IOVEC` parts."""
        try:
            sent = self._sock.send(parts[0]) if len(parts) == 1 else send_many(self._sock, parts[:MAX_IOVEC])
        except BlockingIOError:
            return parts
        self.sent_bytes += sent
        if sent == (len(parts[0]) if len(parts) == 1 else sum(map(len, parts))):
            return ()  # the usual case
        return _after(parts, sent)

    def _open(self) -> socket.socket:
        if self._sock.fileno() < 0:
            raise ConnectionAbortedError("closed on our side")
        return self._sock

    def close(self) -> None:
        """Close the socket."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    def abort(self) -> None:
        """Close the socket so that the kernel discards what it has not delivered."""
        if self._sock.fileno() >= 0:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0_S)
            self.close()


class ReportingTransport(TcpTransport):
    """A TCP connection that reports when its received bytes have been read: `TaskPoller` then waits for more."""

    __slots__ = ("on_emptied",)

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.on_emptied: Callable[[], None] | None = None

    def receive_now(self, buffer: memoryview) -> int | None:
        """Receive without waiting. The end of the stream stays, so it is not waited for again."""
        received = super().receive_now(buffer)
        if received == 0:
            self.may_have_more = self.has_ended = True
        elif not self.may_have_more and self.on_emptied is not None:
            self.on_emptied()
        return received


_Connection: type[TcpTransport] = TcpTransport if sys.platform == "linux" and has("epoll") else ReportingTransport
"""The transport that this system's poller works with (`ProductionEnvironment.poller`)."""


def _after(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """The rest of `parts` after their first `sent` bytes."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []


def _peer_names(sock: socket.socket) -> tuple[str, str]:
    try:
        host, port = sock.getpeername()[:2]
    except OSError:
        return "unknown", "unknown"
    return host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TcpListener:
    """A listening TCP socket.

    Like TcpTransport it uses the operating system's socket, which takes less time than Trio's: of a hundred consumers
    that connect at once, each waits until those before it are accepted.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._in_a_row = 0
        self.address: tuple[str, int] = sock.getsockname()[:2]

    async def accept(self) -> Transport:
        """Accept one connection, skipping those that are already closed. A cancelled call has accepted none."""
        while True:
            await self._take_turns()
            listening = self._open()
            try:
                sock, _ = listening.accept()
            except BlockingIOError:
                self._in_a_row = 0
                await self._arrival()
                continue
            except ConnectionAbortedError:
                continue
            if sock.fileno() >= first_reserved():
                peer = _peer_names(sock)[1]
                sock.close()
                raise DescriptorReserveError(errno.EMFILE, f"refused {peer}")
            try:
                return _Connection(sock)
            except OSError:  # it has been reset already
                sock.close()

    async def _take_turns(self) -> None:
        """Schedule other tasks from time to time, even if many clients connect at once."""
        self._in_a_row += 1
        if self._in_a_row % ACCEPTS_IN_A_ROW:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()

    async def _arrival(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self._sock)
        except trio.ClosedResourceError as error:
            raise ConnectionAbortedError("listener closed") from error

    def _open(self) -> socket.socket:
        if self._sock.fileno() < 0:
            raise ConnectionAbortedError("listener closed")
        return self._sock

    def close(self) -> None:
        """Close the socket."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


async def listen_tcp(host: str, port: int) -> Sequence[Listener]:
    """Listen on every address that `host` resolves to; an empty host means all interfaces. Raises OSError."""
    # Given as bytes, a name is resolved without Python's IDNA codec, which takes long to import.
    name = host.encode() if host.isascii() else host
    opened = await trio.open_tcp_listeners(port, host=name or None, backlog=LISTEN_BACKLOG)
    return [TcpListener(socket.socket(fileno=listener.socket.detach())) for listener in opened]


async def dial_tcp(host: str, port: int) -> Transport:
    """Connect to `host:port`, with overlapping attempts if it has several addresses. Raises OSError."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except ValueError as error:  # of which UnicodeError is one: the name cannot be looked up
        raise OSError(errno.EINVAL, f"{host!r} is not the name of a host: {error}") from error
    except RuntimeError as error:  # names are looked up in a thread, and none can be started
        raise OSError(errno.EAGAIN, f"{host!r} cannot be looked up: {error}") from error
    return _Connection(socket.socket(fileno=stream.socket.detach()))
