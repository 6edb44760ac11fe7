"""The HTTP endpoint for Prometheus and health checks, in separate threads, so that a scrape delays no client.

`GET /metrics`, `GET /health/live` (the event loop runs) and `GET /health/ready` (the broker accepts clients). A health
check returns 200, or 503 with the reason in one line.
"""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Final, TextIO
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import trio
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import ThreadingWSGIServer

from odradek.gateway.assembly import Services
from odradek.gateway.errors import StartError
from odradek.gateway.metrics.collector import BrokerCollector
from odradek.gateway.metrics.raft import ElectionTimes

log = logging.getLogger(__name__)

BEAT_EVERY_S: Final = 1.0
LIVE_WITHIN_US: Final = 15_000_000
"""The time without a turn of the event loop after which the process counts as hanging."""
CLIENT_TIMEOUT_S: Final = 30.0
"""The time for which a read from a client, or a write to it, may wait."""
_TEXT: Final = [("Content-Type", "text/plain; charset=utf-8")]


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


class RequestHandler(WSGIRequestHandler):
    """Handles one client, in a thread of its own, which a client that sends nothing must not hold for ever."""

    timeout = CLIENT_TIMEOUT_S

    def handle(self) -> None:
        """Handle the request, unless the client sends none, or resets the connection."""
        try:
            super().handle()
        except OSError as error:
            log.debug("metrics client lost peer=%s cause=%s", self.client_address[0], error)

    def get_stderr(self) -> TextIO:
        """The stream to which the base class writes the traceback of an error."""
        return _ErrorLog()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the method's parameter
        """Log requests at the level of debugging."""
        log.debug("metrics request peer=%s %s", self.client_address[0], format % args)


class _ErrorLog(io.StringIO):
    """Logs the exception that is being handled, in place of the traceback that was written to it."""

    def flush(self) -> None:
        error = sys.exc_info()[1]
        level = logging.DEBUG if isinstance(error, OSError) else logging.ERROR
        log.log(level, "cannot answer a metrics request", exc_info=error)


class MetricsServer(ThreadingWSGIServer):
    """Serves each client in a thread of its own."""

    def handle_error(self, request: object, client_address: tuple[str, int]) -> None:
        """Log an error that ended the thread of a client."""
        log.exception("a metrics request failed peer=%s", client_address[0])


def application(
    services: Services, health: Health, elections: ElectionTimes
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """The WSGI application of one broker."""
    registry = CollectorRegistry()
    for make in (ProcessCollector, PlatformCollector, GCCollector):
        make(registry=registry)
    registry.register(BrokerCollector(services, elections))
    checks = {"/health/live": health.live, "/health/ready": health.ready}
    scraping = threading.Lock()  # the collector keeps state of earlier scrapes

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            with scraping:
                page = generate_latest(registry)
            start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
            return [page]
        check = checks.get(path)
        if check is None:
            start_response("404 Not Found", _TEXT)
            return [b"there are /metrics, /health/live and /health/ready\n"]
        cause = check()
        start_response("200 OK" if cause is None else "503 Service Unavailable", _TEXT)
        return [f"{cause or 'ok'}\n".encode()]

    return answer


class _ServerOnIPv6(MetricsServer):
    address_family = trio.socket.AF_INET6


async def serve(
    services: Services, host: str, port: int, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; started with the port. Raises StartError if it cannot listen at the address."""
    health, elections = Health(services), ElectionTimes(services)
    try:
        app = application(services, health, elections)
        server_class = _ServerOnIPv6 if ":" in host else MetricsServer
        server = make_server(host, port, app, server_class, handler_class=RequestHandler)
    except OSError as error:
        raise StartError(f"cannot serve metrics at {host}:{port} (odradek.metrics.listen): {error}") from error
    thread = threading.Thread(target=server.serve_forever, name="odradek-metrics", daemon=True)
    thread.start()
    log.info("metrics at http://%s:%d/metrics", host, server.server_port)
    task_status.started(server.server_port)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(elections.watch)
            await health.beat()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.shutdown)
        server.server_close()
