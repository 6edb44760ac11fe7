"""A network in memory between named hosts, with seeded delay, loss and partition.

It implements the two protocols of `gateway.net.transport` and passes the same tests as TCP, those of
`tests/gateway/test_network.py`. Every delivery is an event of the trace with a checksum of its bytes.
"""

import random
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from odradek.gateway.net.transport import Buffer, Listener, Transport
from odradek.gateway.testing.simulation.pipe import End, Pipe, Reader

FIRST_EPHEMERAL_PORT: Final = 49152
CONNECT_TIMEOUT_S: Final = 3.0
TAKEN_AT_ONCE: Final = 0.5
"""The probability that `send_now` sends a message."""

Record = Callable[[str, str], None]


@dataclass(slots=True)
class NetworkFaults:
    """The faults of the network; probabilities apply to each send or receive. May be changed during a simulation.

    `cut` delivers a prefix of a message and then resets the connection; `partial` makes a receive return only a
    part of what has arrived; `spike` adds up to `spike_ms` to a delay.
    """

    delay_ms: tuple[float, float] = (0.0, 0.0)
    spike: float = 0.0
    spike_ms: float = 1000.0
    reset: float = 0.0
    cut: float = 0.0
    partial: float = 0.0


class MemoryTransport:
    """One side of a connection."""

    def __init__(self, network: "MemoryNetwork", incoming: Pipe, outgoing: Pipe, peer_port: int) -> None:
        self.host = incoming.target
        self.peer_host = incoming.source
        self.peer = f"{self.peer_host}:{peer_port}"
        self.sent_bytes = 0
        self._network = network
        self._incoming = incoming
        self._outgoing = outgoing
        self._error: Callable[[], OSError] | None = None

    @property
    def may_have_more(self) -> bool:
        """See `Transport.may_have_more`."""
        return self._error is not None or self._incoming.arrived() is not None

    async def receive_into(self, buffer: memoryview) -> int:
        """See `Transport.receive_into`."""
        await trio.lowlevel.checkpoint()
        while (received := self.receive_now(buffer)) is None:
            await self._incoming.arrival()
        return received

    def receive_now(self, buffer: memoryview) -> int | None:
        """See `Transport.receive_now`."""
        self._check()
        arrived = self._incoming.arrived()
        if isinstance(arrived, memoryview):
            return self._take(buffer, len(arrived))
        if arrived is End.RESET:
            self.fail(_reset_by_peer)
            self._check()
        return None if arrived is None else 0

    @property
    def incoming(self) -> Pipe:
        """The pipe from the peer, for the poller."""
        return self._incoming

    @property
    def is_broken(self) -> bool:
        """True if receiving raises."""
        return self._error is not None

    def _take(self, buffer: memoryview, available: int) -> int:
        size = self._network.receive_size(min(len(buffer), available))
        data = self._incoming.take(size)
        buffer[:size] = data
        self._network.record(self.host, f"received {size} from {self.peer} crc={zlib.crc32(data):08x}")
        return size

    async def send_parts(self, parts: Sequence[Buffer]) -> None:
        """See `Transport.send_parts`."""
        await trio.lowlevel.checkpoint()
        self._check()
        data = memoryview(b"".join(parts))
        break_after = self._network.break_after(len(data))
        if break_after is not None:
            await self._send(data[:break_after])
            self._network.record(self.host, f"reset of {self.peer} after {break_after} of {len(data)} bytes")
            self._break(_reset_by_peer)
        else:
            await self._send(data)

    def send_now(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """See `Transport.send_now`: sends, at random, the whole message or nothing."""
        self._check()
        data = memoryview(b"".join(parts))
        if not self._network.takes_at_once(len(data)) or self._is_swallowed() or len(data) > self._outgoing.room_bytes:
            return parts
        if data:
            self._outgoing.write(data, self._network.delay_s(self.host, self.peer_host))
            self.sent_bytes += len(data)
        return []

    async def _send(self, data: memoryview) -> None:
        while data and not self._is_swallowed():
            self._check()
            some = data[: self._outgoing.room_bytes]
            if some:
                self._outgoing.write(some, self._network.delay_s(self.host, self.peer_host))
                self.sent_bytes += len(some)
                data = data[len(some) :]
            else:
                await self._outgoing.changed()
                if self._is_swallowed():
                    self._check()

    def _is_swallowed(self) -> bool:
        """True if no reader gets the bytes: the peer closed, or its host lost power without closing.

        As with TCP, the first bytes after that are accepted without an error, and the peer answers with a reset.
        """
        reader = self._outgoing.reader
        if reader is Reader.CLOSED and not self._network.is_blocked(self.peer_host, self.host):
            self.fail(_reset_by_peer)
        if reader is Reader.LOST and self._network.is_up(self.peer_host):
            self.fail(_reset_by_peer)
        return reader is not Reader.THERE

    def _check(self) -> None:
        if self._error is not None:
            raise self._error()

    def fail(self, error: Callable[[], OSError], reader: Reader = Reader.CLOSED) -> None:
        """Break this side only."""
        if self._error is None:
            self._error = error
            self._incoming.reader = reader
            self._network.forget(self)
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait on either direction."""
        self._incoming.notify()
        self._outgoing.notify()

    def _break(self, error: Callable[[], OSError]) -> None:
        """Reset the connection: this side at once with `error`, the peer once it has read what arrived before."""
        self.fail(error)
        self._outgoing.end(End.RESET, self._network.delay_s(self.host, self.peer_host))

    def close(self) -> None:
        """See `Transport.close`. If bytes are unread, the peer gets a reset, as with TCP."""
        if self._error is not None:
            return
        how = End.RESET if self._incoming.unread_bytes else End.FINISHED
        self.fail(_closed_here)
        self._outgoing.end(how, self._network.delay_s(self.host, self.peer_host))

    def abort(self) -> None:
        """See `Transport.abort`."""
        if self._error is None:
            self._outgoing.discard()
            self._break(_closed_here)

    def lose_power(self) -> None:
        """End this side without a packet to the peer, as when its machine loses power."""
        self.fail(_closed_here, Reader.LOST)


def _closed_here() -> OSError:
    return ConnectionAbortedError("closed on our side")


def _reset_by_peer() -> OSError:
    return ConnectionResetError("connection reset by the simulated network")


class MemoryListener:
    """A port of a host that accepts connections."""

    def __init__(self, network: "MemoryNetwork", address: tuple[str, int]) -> None:
        self.address = address
        self._network = network
        self._waiting: deque[MemoryTransport] = deque()
        self._closed = False
        self._changed = trio.Event()

    def offer(self, transport: MemoryTransport) -> None:
        """Queue a new connection."""
        self._waiting.append(transport)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def accept(self) -> Transport:
        """See `Listener.accept`."""
        await trio.lowlevel.checkpoint()
        while not self._closed:
            if self._waiting:
                return self._waiting.popleft()
            await self._changed.wait()
        raise ConnectionAbortedError("listener closed")

    def close(self) -> None:
        """See `Listener.close`. Connections not yet accepted are reset."""
        if not self._closed:
            self._closed = True
            self._network.unlisten(self.address)
            for transport in self._waiting:
                transport.close()
            self._waiting.clear()
            self._notify()


class MemoryNetwork:
    """All hosts, ports and connections; `chance` decides the faults, `record(host, what)` is called for each event.

    `slow_links` contains the largest additional delay, in milliseconds, of a delivery from one host to another.
    """

    def __init__(
        self, chance: random.Random, faults: NetworkFaults | None = None, record: Record = lambda _host, _what: None
    ) -> None:
        self.faults = faults or NetworkFaults()
        self.record = record
        self.slow_links: dict[tuple[str, str], float] = {}
        self._chance = chance
        self._listeners: dict[tuple[str, int], MemoryListener] = {}
        self._transports: dict[MemoryTransport, None] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._next_port = FIRST_EPHEMERAL_PORT

    def listen(self, host: str, port: int) -> Sequence[Listener]:
        """Listen on a port of `host`; 0 picks a free one. Raises OSError if the port is in use."""
        address = (host, port or self._free_port())
        if address in self._listeners:
            raise OSError(f"address {host}:{port} is in use")
        listener = self._listeners[address] = MemoryListener(self, address)
        return [listener]

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def unlisten(self, address: tuple[str, int]) -> None:
        """Free a port."""
        self._listeners.pop(address, None)

    async def dial(self, source: str, host: str, port: int) -> MemoryTransport:
        """Connect from `source`. Raises OSError if the connection is refused, or times out across a partition."""
        await trio.sleep(self.delay_s(source, host))
        if self.is_blocked(source, host) or self.is_blocked(host, source):
            await trio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(f"no answer from {host}:{port}")
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(f"no listener at {host}:{port}")
        to, back = self._pipe(source, host), self._pipe(host, source)
        here = MemoryTransport(self, back, to, port)
        there = MemoryTransport(self, to, back, self._free_port())
        self._transports[here] = self._transports[there] = None
        listener.offer(there)
        self.record(source, f"connected to {host}:{port} as {there.peer}")
        return here

    def _pipe(self, source: str, target: str) -> Pipe:
        return Pipe(source, target, lambda: self.is_blocked(source, target))

    def forget(self, transport: MemoryTransport) -> None:
        """Remove a side that has failed or was closed."""
        self._transports.pop(transport, None)

    def is_up(self, host: str) -> bool:
        """True if any port of `host` listens."""
        return any(address[0] == host for address in self._listeners)

    def is_blocked(self, source: str, target: str) -> bool:
        """True while nothing is delivered from `source` to `target`."""
        return (source, target) in self._blocked

    def partition(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Deliver nothing until `heal`. Connections stay open and deliver then, as TCP does by retransmission."""
        self._blocked[source, target] = None
        if both_ways:
            self._blocked[target, source] = None
        self.record(source, f"partitioned from {target} both_ways={both_ways}")

    def heal(self) -> None:
        """End all partitions."""
        self._blocked.clear()
        for transport in list(self._transports):
            transport.wake()
        self.record("network", "healed")

    def crash(self, host: str, *, silently: bool) -> None:
        """End the connections and ports of `host`; peers are notified, as by an operating system, unless `silently`."""
        for transport in [each for each in self._transports if each.host == host]:
            if silently:
                transport.lose_power()
            else:
                transport.close()
        for listener in [each for address, each in self._listeners.items() if address[0] == host]:
            listener.close()

    def delay_s(self, source: str, target: str) -> float:
        """The duration of the next delivery."""
        faults = self.faults
        low, high = faults.delay_ms
        delay_ms = self._chance.uniform(low, high) if high > 0 else 0.0
        if faults.spike and self._chance.random() < faults.spike:
            delay_ms += self._chance.uniform(0, faults.spike_ms)
        if self.slow_links:
            delay_ms += self.slow_links.get((source, target), 0.0) * self._chance.random()
        return delay_ms / 1000

    def receive_size(self, size: int) -> int:
        """The number of `size` available bytes that a receive returns."""
        if self.faults.partial and size > 1 and self._chance.random() < self.faults.partial:
            return self._chance.randint(1, size - 1)
        return size

    def takes_at_once(self, size: int) -> bool:
        """Decide whether `size` bytes are sent without waiting; never if a fault is drawn for them."""
        return self.break_after(size) is None and self._chance.random() < TAKEN_AT_ONCE

    def break_after(self, size: int) -> int | None:
        """The number of `size` bytes after which the connection breaks; None if it does not."""
        faults = self.faults
        if faults.reset and self._chance.random() < faults.reset:
            return 0
        if faults.cut and size > 1 and self._chance.random() < faults.cut:
            return self._chance.randint(1, size - 1)
        return None
