"""The HTTP endpoint for Prometheus and health checks, in a thread with an event loop of its own: a scrape delays no
client, and the health checks answer also while the broker's loop hangs.

`GET /metrics`, `GET /health/live` (the event loop runs) and `GET /health/ready` (the broker accepts clients). A health
check returns 200, or 503 with the reason in one line.
"""

import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import trio
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from odradek.gateway.assembly import Services
from odradek.gateway.errors import StartError
from odradek.gateway.metrics.collector import BrokerCollector
from odradek.gateway.metrics.http import HttpServer, Page
from odradek.gateway.metrics.raft import ElectionTimes

log = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0
LIVE_WITHIN_US: Final = 15_000_000
"""The time without a turn of the event loop after which the process counts as hanging."""


class Health:
    """The broker's health; written on the Trio thread, read by any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._beat_us = services.request_times.now_us()

    async def beat(self) -> None:
        """Record at intervals that the event loop runs, until cancelled."""
        while True:
            self._beat_us = self._services.request_times.now_us()
            await trio.sleep(BEAT_EVERY_S)

    def live(self) -> str | None:
        """The reason why the process counts as hanging, or None."""
        silent_us = self._services.request_times.now_us() - self._beat_us
        return f"the event loop has not turned for {silent_us // 1_000_000} s" if silent_us > LIVE_WITHIN_US else None

    def ready(self) -> str | None:
        """The reason why clients should not be sent here, or None."""
        if self._services.stopping:
            return "the broker drains"
        if not self._services.life.ready.is_set():  # the image may have an earlier registration that is not fenced
            return "the broker has not registered, or the controller has not unfenced it"
        config = self._services.config
        broker = self._services.metadata.image.brokers.get(config.node_id)
        if config.node.is_broker and (broker is None or broker.fenced):
            return "the controller has fenced the broker"
        return self.live()


def pages(services: Services, health: Health, elections: ElectionTimes) -> Callable[[str], Awaitable[Page]]:
    """The pages of one broker, by path."""
    registry = CollectorRegistry()
    for make in (ProcessCollector, PlatformCollector, GCCollector):
        make(registry=registry)
    registry.register(BrokerCollector(services, elections))
    checks = {"/health/live": health.live, "/health/ready": health.ready}
    one_at_a_time = trio.CapacityLimiter(1)  # the collector keeps state of earlier scrapes

    async def find(path: str) -> Page:
        if path == "/metrics":
            page = await trio.to_thread.run_sync(generate_latest, registry, limiter=one_at_a_time)
            return Page(200, page, CONTENT_TYPE_LATEST)
        check = checks.get(path)
        if check is None:
            return Page(404, b"there are /metrics, /health/live and /health/ready\n")
        cause = check()
        return Page(200 if cause is None else 503, f"{cause or 'ok'}\n".encode())

    return find


class _ServingThread:
    """Serves the pages in a thread with its own event loop, from `start` to `stop`."""

    def __init__(self, server: HttpServer, listeners: Sequence[trio.SocketListener]) -> None:
        self._server = server
        self._listeners = listeners
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="odradek-metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except Exception:
            log.exception("metrics and health checks are served no more")
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._begun.set()
        with self._scope:
            await self._server.serve(self._listeners)

    def stop(self) -> None:
        """Close the connections and wait for the thread."""
        self._begun.wait()
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()


async def serve(
    services: Services, host: str, port: int, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; started with the port. Raises StartError if it cannot listen at the address."""
    health, elections = Health(services), ElectionTimes(services)
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise StartError(f"cannot serve metrics at {host}:{port} (odradek.metrics.listen): {error}") from error
    port = listeners[0].socket.getsockname()[1]
    serving = _ServingThread(HttpServer(pages(services, health, elections)), listeners)
    serving.start()
    log.info("metrics at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)
    task_status.started(port)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(elections.watch)
            await health.beat()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(serving.stop)
