"""Accepts connections on every listener, enforces the limits, and drains the connections at shutdown.

The limits are Kafka's: `max.connections`, `max.connections.per.ip`, `max.connection.creation.rate`,
`connections.max.idle.ms`. A connection beyond the creation rate waits until the rate allows it, one beyond
`max.connections` until another one ends (`connection_quota.py` has the exceptions), and one beyond the limit of its
address is closed at once. Each of these is logged.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from itertools import chain

import trio

from odradek.gateway.assembly import Services
from odradek.gateway.env.signals import Condition
from odradek.gateway.net.transport import DescriptorReserveError, Listener, Transport
from odradek.gateway.server.connection_quota import ConnectionQuota
from odradek.gateway.server.dispatch import Dispatcher
from odradek.gateway.server.driver import ConnectionDriver
from odradek.gateway.server.workers import Workers

log = logging.getLogger(__name__)

ACCEPT_RETRY_S = 0.1
"""The pause of a listener after accept failed: for lack of descriptors or memory it would fail again at once."""
SLOT_CHECK_S = 1.0
"""The interval at which a connection that waits because of a limit checks whether the limit was raised."""
MIN_CHECK_MS = 200
MAX_CHECK_MS = 40_000
"""Bounds of the time-out whose quarter is the interval of the checks for stale connections: 50 ms to 10 s."""
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Server:
    """All connections of one broker.

    `listeners` maps a listener's name to its bound sockets.
    """

    def __init__(self, services: Services, listeners: dict[str, Sequence[Listener]]) -> None:
        self._services = services
        self._listeners = listeners
        self._dispatcher = Dispatcher(services)
        self._workers = Workers(services.env.poller(), services.replicas.resources.ticker)
        node, now_ms = services.config.node, services.env.monotonic_ms()
        protected = node.inter_broker_listener_name if len(node.listeners) > 1 else None
        self._clients = ConnectionQuota(protected, now_ms)
        self._controllers = ConnectionQuota(None, now_ms)
        self._stopping = False
        self._fewer = Condition()

    async def run(self) -> None:
        """Serve until cancelled. To stop gracefully, `drain` first and cancel then."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._workers.run)
                for name, bound in self._listeners.items():
                    for listener in bound:
                        nursery.start_soon(self._accept_forever, name, listener)
                nursery.start_soon(self._close_stale_forever)
        finally:
            for connection in self._open():
                connection.close()

    def _open(self) -> list[ConnectionDriver]:
        return list(chain(self._clients.open, self._controllers.open))

    def _quota(self, listener: str) -> ConnectionQuota:
        is_controllers = listener in self._services.config.node.controller_listener_names
        return self._controllers if is_controllers else self._clients

    async def catch_up(self) -> None:
        """Wait until the requests that have arrived on connections are being handled."""
        await self._workers.catch_up()

    def disconnect(self, takes: Callable[[str], bool]) -> int:
        """Close the connections whose peer, as `host:port`, `takes` accepts; returns their number."""
        taken = [connection for connection in self._open() if takes(connection.transport.peer)]
        for connection in taken:
            connection.close()
        return len(taken)

    async def drain(self) -> None:
        """Stop accepting, answer the requests in flight, and close.

        After `odradek.drain.timeout.ms` the remaining connections are closed at once. After cancellation, connections
        that are not drained yet stay open.
        """
        self._stopping = True
        for bound in self._listeners.values():
            for listener in bound:
                listener.close()
        for connection in self._open():
            connection.drain()
        with trio.move_on_after(self._services.config.drain_timeout_ms / 1000):
            while self._clients.open or self._controllers.open:
                await self._fewer.wait()
        for connection in self._open():
            log.warning("drain timed out peer=%s", connection.transport.peer)
            connection.close()

    async def _accept_forever(self, name: str, listener: Listener) -> None:
        if name not in self._services.config.node.controller_listener_names:
            # a fenced broker does not serve clients; their connections are queued
            await self._services.life.ready.wait()
        while not self._stopping:
            try:
                transport = await listener.accept()
            except DescriptorReserveError as error:
                self._log_accept_error(name, error)
                continue
            except OSError as error:
                if self._stopping:
                    return
                self._log_accept_error(name, error)
                await trio.sleep(ACCEPT_RETRY_S)
                continue
            try:
                admitted = await self._turn(name, transport) and await self._slot(name, transport)
            except trio.Cancelled:
                transport.close()
                raise
            if not admitted:
                transport.close()
                return
            refusal = self._refusal(name, transport)
            if refusal is None:
                self._serve(name, transport)
            else:
                self._services.repeats.note(
                    ("too many", transport.peer_host),
                    log,
                    logging.WARNING,
                    "refusing connection peer=%s cause=%s",
                    transport.peer,
                    refusal,
                )
                transport.close()

    def _log_accept_error(self, listener: str, error: OSError) -> None:
        """Log why a connection was not accepted. accept(2) also returns network errors: the listener continues."""
        note = self._services.repeats.note
        if error.errno in OUT_OF_RESOURCES:
            note(
                ("accept", listener, error.errno),
                log,
                logging.ERROR,
                "connections are refused listener=%s open=%d cause=%s (raise the limit of open files, ulimit -n or "
                "LimitNOFILE, or lower max.connections)",
                listener,
                len(self._quota(listener).open),
                error,
            )
        else:
            note(
                ("accept", listener, error.errno),
                log,
                logging.WARNING,
                "cannot accept listener=%s error=%s",
                listener,
                error,
            )

    async def _slot(self, listener: str, transport: Transport) -> bool:
        """Wait until `max.connections` allows one more, as Kafka does; False if the broker stops first.

        There is no checkpoint after the last check, so that listeners cannot exceed the limit together.
        """
        is_logged, quota = False, self._quota(listener)
        while not quota.has_room(listener, self._services.config.max_connections) and not self._stopping:
            if not is_logged:
                is_logged = True
                message = "connection waits peer=%s cause=%d connections are open (max.connections)"
                self._services.repeats.note(message, log, logging.WARNING, message, transport.peer, len(quota.open))
            with trio.move_on_after(SLOT_CHECK_S):  # the limit may be raised meanwhile
                await self._fewer.wait()
        return not self._stopping

    async def _turn(self, listener: str, transport: Transport) -> bool:
        """Wait until `max.connection.creation.rate` allows one more; False if the broker stops first."""
        while not self._stopping:
            allowed = self._services.config.max_connection_creation_rate
            wait_ms = self._quota(listener).wait_ms(listener, allowed, self._services.env.monotonic_ms())
            if not wait_ms:
                return True
            cause = f"more than {allowed} new connections a second (max.connection.creation.rate)"
            self._services.repeats.note(
                "rate", log, logging.WARNING, "connection waits peer=%s cause=%s", transport.peer, cause
            )
            await trio.sleep(min(wait_ms / 1000, SLOT_CHECK_S))  # the rate may be raised meanwhile
        return False

    def _refusal(self, listener: str, transport: Transport) -> str | None:
        config = self._services.config
        allowed = config.max_connections_per_ip_overrides.get(transport.peer_host, config.max_connections_per_ip)
        found = self._quota(listener).from_host(transport.peer_host)
        return f"{found} connections from there (max.connections.per.ip)" if found >= allowed else None

    def _serve(self, name: str, transport: Transport) -> None:
        if self._stopping:  # it was accepted just before the drain
            transport.close()
            return
        connection = ConnectionDriver(
            transport, name, self._services, self._dispatcher, self._workers, self._connection_ended
        )
        self._quota(name).add(connection)
        try:
            connection.start()
        except OSError as error:
            self._log_accept_error(name, error)
            connection.close()
        self._close_excess()

    def _connection_ended(self, connection: ConnectionDriver) -> None:
        self._quota(connection.listener).remove(connection)
        self._fewer.notify()

    def _close_excess(self) -> None:
        limit, now_ms = self._services.config.max_connections, self._services.env.monotonic_ms()
        cause = "more connections are open than allowed, and it was idle longest (max.connections)"
        for connection in (*self._clients.excess(limit, now_ms), *self._controllers.excess(limit, now_ms)):
            self._services.repeats.note(
                "excess", log, logging.WARNING, "closing connection peer=%s cause=%s", connection.transport.peer, cause
            )
            connection.close()

    async def _close_stale_forever(self) -> None:
        while True:
            await trio.sleep(self._check_every_ms() / 4000)
            now_ms = self._services.env.monotonic_ms()
            for connection in self._open():
                cause = connection.stale_cause(now_ms)
                if cause is not None:
                    log.info("closing connection peer=%s cause=%s", connection.transport.peer, cause)
                    connection.close()
            self._close_excess()

    def _check_every_ms(self) -> int:
        config = self._services.config
        shortest_ms = config.connection_write_timeout_ms
        if config.connections_max_idle_ms >= 0:
            shortest_ms = min(shortest_ms, config.connections_max_idle_ms)
        return min(max(shortest_ms, MIN_CHECK_MS), MAX_CHECK_MS)
