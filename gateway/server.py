"""Accepts connections on every listener, holds them to the limits, and drains them at the end.

The limits are Kafka's: `max.connections`, `max.connections.per.ip`, `connections.max.idle.ms`. A client over a limit is
closed at once and the log says why; the others are served on.
"""

import errno
import logging
from collections import Counter
from collections.abc import Sequence

import trio

from gateway.connection import Connection
from gateway.dispatch import Dispatcher
from gateway.network import Listener, Transport
from gateway.services import Services

log = logging.getLogger(__name__)

ACCEPT_RETRY_S = 0.1
"""How long to leave a listener alone that ran out of file descriptors or memory."""
MAX_CHECK_MS = 40_000
"""Stale connections are looked for at least every quarter of this."""
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Server:
    """All connections of one broker.

    `listeners` maps a listener's name to its bound sockets.
    """

    def __init__(self, services: Services, listeners: dict[str, Sequence[Listener]]) -> None:
        self._services = services
        self._listeners = listeners
        self._dispatcher = Dispatcher(services)
        self._connections: dict[Connection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._stopping = False
        self._empty = trio.Event()

    async def run(self) -> None:
        """Serve until cancelled; cancel after `drain` to stop gracefully."""
        async with trio.open_nursery() as nursery:
            for name, bound in self._listeners.items():
                for listener in bound:
                    nursery.start_soon(self._accept_forever, name, listener, nursery)
            nursery.start_soon(self._close_stale_forever)

    async def drain(self) -> None:
        """Stop accepting, let requests under way be answered, and close; give up after the drain time-out."""
        self._stopping = True
        for bound in self._listeners.values():
            for listener in bound:
                listener.close()
        for connection in list(self._connections):
            connection.drain()
        with trio.move_on_after(self._services.config.drain_timeout_ms / 1000):
            while self._connections:
                await self._empty.wait()
        for connection in list(self._connections):
            log.warning("drain timed out peer=%s", connection.transport.peer)
            connection.transport.close()

    async def _accept_forever(self, name: str, listener: Listener, nursery: trio.Nursery) -> None:
        while not self._stopping:
            try:
                transport = await listener.accept()
            except OSError as error:
                if self._stopping:
                    return
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                log.exception("cannot accept listener=%s (raise the limit of open files, ulimit -n)", name)
                await trio.sleep(ACCEPT_RETRY_S)
                continue
            refusal = self._refusal(transport)
            if refusal is None:
                nursery.start_soon(self._serve, name, transport)
            else:
                log.warning("refusing connection peer=%s cause=%s", transport.peer, refusal)
                transport.close()

    def _refusal(self, transport: Transport) -> str | None:
        config = self._services.config
        if len(self._connections) >= config.max_connections:
            return f"{len(self._connections)} connections are open (max.connections)"
        allowed = config.max_connections_per_ip_overrides.get(transport.peer_host, config.max_connections_per_ip)
        if self._per_host[transport.peer_host] >= allowed:
            return f"{self._per_host[transport.peer_host]} connections from there (max.connections.per.ip)"
        return None

    async def _serve(self, name: str, transport: Transport) -> None:
        connection = Connection(transport, name, self._services, self._dispatcher)
        self._connections[connection] = None
        self._per_host[transport.peer_host] += 1
        try:
            await connection.run()
        finally:
            del self._connections[connection]
            self._forget_host(transport.peer_host)
            if not self._connections:
                self._empty.set()
                self._empty = trio.Event()

    def _forget_host(self, host: str) -> None:
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    async def _close_stale_forever(self) -> None:
        while True:
            config = self._services.config
            await trio.sleep(
                min(config.connections_max_idle_ms, config.connection_write_timeout_ms, MAX_CHECK_MS) / 4000
            )
            for connection in list(self._connections):
                cause = self._staleness(connection)
                if cause is not None:
                    log.info("closing connection peer=%s cause=%s", connection.transport.peer, cause)
                    connection.transport.close()

    def _staleness(self, connection: Connection) -> str | None:
        config, now_ms = self._services.config, self._services.env.monotonic_ms()
        since_ms = connection.sending_since_ms
        if since_ms is not None and now_ms - since_ms > config.connection_write_timeout_ms:
            return "it takes none of its replies (odradek.connection.write.timeout.ms)"
        if now_ms - connection.last_active_ms > config.connections_max_idle_ms:
            return "idle (connections.max.idle.ms)"
        return None
