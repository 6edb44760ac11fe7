"""The HTTP server of the metrics: health checks through a real client, and its limits."""

import contextlib
import http.client
import logging
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from gateway_brokers import ProcessBroker, environment, free_port

from odradek.gateway.metrics.http import ANSWER_TIMEOUT_S, MAX_CLIENTS, REQUEST_TIMEOUT_S, HttpServer, Page


def probe(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body; http.client raises IncompleteRead if the body is shorter than its Content-Length."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        if method != "HEAD":
            assert int(answer.headers["Content-Length"]) == len(body)
        return answer.status, body


@contextlib.contextmanager
def serving(data: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`odradek serve`, without waiting until it is ready."""
    command = [sys.executable, "-m", "odradek", "serve", "--data", str(data), *arguments]
    with (data.parent / f"{data.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment())
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def test_health_is_true_before_during_and_after_the_start(tmp_path):
    """Each answer is that of its own moment, whatever was answered before it."""
    port, controllers = free_port(), free_port()
    common = ("--set", f"controller.quorum.voters=1@127.0.0.1:{controllers}", "--set")
    broker = (*common, "process.roles=broker", "--set", "node.id=2", "--listen", "127.0.0.1:0")
    controller = (*common, "process.roles=controller", "--set", f"listeners=CONTROLLER://127.0.0.1:{controllers}")
    with pytest.raises(ConnectionRefusedError):
        probe(port, "/health/ready")
    with serving(tmp_path / "broker", *broker, "--metrics", f"127.0.0.1:{port}"):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                status, body = probe(port, "/health/ready")
                break
        assert (status, "not registered" in body) == (503, True)
        for _ in range(2):
            assert probe(port, "/")[0] == 404
            assert probe(port, "/health/live") == (200, "ok\n")
            assert probe(port, "/health/ready") == (503, body)
            assert probe(port, "/health/ready", "HEAD") == (503, "")
        with serving(tmp_path / "controller", *controller):
            while (answer := probe(port, "/health/ready"))[0] == 503:
                assert answer[1].endswith("\n")
            for _ in range(2):
                assert probe(port, "/health/ready") == (200, "ok\n")
                assert probe(port, "/health/live") == (200, "ok\n")
                assert probe(port, "/elsewhere")[0] == 404
                assert probe(port, "/metrics")[1].endswith("\n")


def threads_of(process: subprocess.Popen[str] | None) -> int:
    assert process is not None
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def test_idle_connections_take_no_threads_and_keep_no_check_out(tmp_path):
    port = free_port()
    with (
        ProcessBroker(tmp_path / "data", "--metrics", f"127.0.0.1:{port}") as broker,
        contextlib.ExitStack() as idle,
    ):
        assert probe(port, "/health/ready") == (200, "ok\n")
        before = threads_of(broker.process)
        sockets = [
            idle.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(4 * MAX_CLIENTS)
        ]
        assert probe(port, "/health/ready") == (200, "ok\n")
        assert probe(port, "/metrics")[0] == 200
        assert threads_of(broker.process) <= before + 4
        assert sockets[0].recv(1) == b""  # the oldest connection was closed for newer ones


def started(nursery: trio.Nursery, server: HttpServer) -> trio.abc.Stream:
    """The client's end of a connection to the server."""
    client, accepted = trio.testing.memory_stream_pair()
    nursery.start_soon(server.handle, accepted)
    return client


async def whole(client: trio.abc.Stream) -> bytes:
    parts = [part async for part in client]
    return b"".join(parts)


async def hello(path: str) -> Page:
    return Page(200, f"hello {path}\n".encode())


GET = b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n"


async def test_a_request_is_answered_and_its_connection_closed(autojump_clock, nursery):
    client = started(nursery, HttpServer(hello))
    for byte in GET:
        await client.send_all(bytes([byte]))
    head, _, body = (await whole(client)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b"hello /a\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde", b"405"),
        (b"no request\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000, b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
    ],
)
async def test_requests_of_all_kinds(autojump_clock, nursery, request_, status):
    client = started(nursery, HttpServer(hello))
    await client.send_all(request_)
    assert (await whole(client)).split(b" ", 2)[1] == status


@pytest.mark.parametrize("sent", [b"", b"GET / HT"])
async def test_a_client_that_sends_no_request_is_disconnected(autojump_clock, nursery, sent):
    client = started(nursery, HttpServer(hello))
    await client.send_all(sent)
    began = trio.current_time()
    assert await whole(client) == b""
    assert trio.current_time() - began == pytest.approx(REQUEST_TIMEOUT_S)


async def test_a_client_that_does_not_read_is_disconnected(autojump_clock, nursery):
    client, accepted = trio.testing.lockstep_stream_pair()
    nursery.start_soon(HttpServer(hello).handle, accepted)
    await client.send_all(GET)
    await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(ANSWER_TIMEOUT_S + 1)
    with pytest.raises(trio.BrokenResourceError):
        await client.send_all(b"x")


async def test_the_oldest_client_without_a_request_goes_first(autojump_clock, nursery):
    released = trio.Event()

    async def slow(_path: str) -> Page:
        await released.wait()
        return Page(200, b"done")

    server = HttpServer(slow, max_clients=2)
    asking = started(nursery, server)
    await asking.send_all(GET)
    await trio.testing.wait_all_tasks_blocked()
    idle = started(nursery, server)
    await trio.testing.wait_all_tasks_blocked()
    newest = started(nursery, server)
    await newest.send_all(GET)
    assert await whole(idle) == b""
    released.set()
    assert (await whole(asking)).endswith(b"done")
    assert (await whole(newest)).endswith(b"done")


async def test_an_error_of_a_page_is_logged(autojump_clock, nursery, caplog):
    error = ValueError("a defect")

    async def fail(_path: str) -> Page:
        raise error

    client = started(nursery, HttpServer(fail))
    await client.send_all(GET)
    assert (await whole(client)).startswith(b"HTTP/1.1 500 ")
    [line] = [record for record in caplog.records if record.exc_info]
    assert line.exc_info is not None
    assert (line.levelname, line.exc_info[1]) == ("ERROR", error)


async def test_a_client_that_resets_its_connection_is_no_error(caplog):
    caplog.set_level(logging.WARNING)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = HttpServer(hello)
    with socket.create_connection(listener.socket.getsockname(), timeout=60) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted = await listener.accept()
        client.close()
        await server.handle(accepted)
    await listener.aclose()
    assert caplog.records == []
