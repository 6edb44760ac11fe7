"""The lower bound: the CPU of a server in Python that only echoes. `python -m benchmarks.echo [--seconds N]`.

Two servers, one on bare epoll and one on bare Trio with a task for each connection, under two loads of small requests:
a few connections that send the next request at each answer, and ten thousand that together send as many requests as a
thousand idle groups. Prints one line for each; the broker's figures for the same loads are `sync-16x100b` and
`idle-groups`.
"""

from __future__ import annotations

import argparse
import select
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import trio

from benchmarks.groups import HEARTBEATS_A_SECOND
from benchmarks.proc import cpu_seconds

HOST = "127.0.0.1"
REQUEST, ANSWER = bytes(80), bytes(16)
"""As many bytes as a heartbeat and its answer."""
FEW, MANY = 16, 10_000
_BACKLOG = 1024


def _listen(parent: Connection) -> socket.socket:
    sock = socket.create_server((HOST, 0), backlog=_BACKLOG)
    parent.send(sock.getsockname()[1])
    return sock


def serve_on_epoll(parent: Connection) -> None:
    """Echo until killed, in one loop over epoll; sends the port to `parent`."""
    listener, poll, buffer = _listen(parent), select.epoll(), memoryview(bytearray(4096))
    connections: dict[int, socket.socket] = {}
    poll.register(listener, select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                connections[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
            elif connections[number].recv_into(buffer):
                connections[number].sendmsg([ANSWER])
            else:
                poll.unregister(number)
                connections.pop(number).close()


def serve_on_trio(parent: Connection) -> None:
    """Echo until killed, with a task for each connection that waits for its socket; sends the port to `parent`."""
    trio.run(_serve_on_trio, _listen(parent))


async def _serve_on_trio(listener: socket.socket) -> None:
    listener.settimeout(0)
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            nursery.start_soon(_echo, listener.accept()[0])


async def _echo(connection: socket.socket) -> None:
    buffer = memoryview(bytearray(4096))
    with connection:
        connection.settimeout(0)
        await trio.lowlevel.wait_readable(connection)
        while connection.recv_into(buffer):
            connection.sendmsg([ANSWER])
            await trio.lowlevel.wait_readable(connection)


def ask_at_once(clients: list[socket.socket], seconds: float) -> int:
    """Send a request on each connection whenever the previous one is answered; returns the number of answers."""
    by_number, poll = {client.fileno(): client for client in clients}, select.epoll()
    for client in clients:
        poll.register(client, select.EPOLLIN)
        client.send(REQUEST)
    answers, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            by_number[number].recv(len(ANSWER))
            by_number[number].send(REQUEST)
            answers += 1
    return answers


def ask_evenly(clients: list[socket.socket], seconds: float) -> int:
    """Send requests on one connection after the other, at the rate of idle groups; returns the number of answers."""
    by_number, poll = {client.fileno(): client for client in clients}, select.epoll()
    for client in clients:
        poll.register(client, select.EPOLLIN)
    sent, answers, began = 0, 0, time.perf_counter()
    while (now := time.perf_counter()) < began + seconds:
        while sent < (now - began) * HEARTBEATS_A_SECOND:
            clients[sent % len(clients)].send(REQUEST)
            sent += 1
        for number, _ in poll.poll(0.0002):
            by_number[number].recv(len(ANSWER))
            answers += 1
    return answers


def measure(
    serve: Callable[[Connection], None], ask: Callable[[list[socket.socket], float], int], count: int, seconds: float
) -> str:
    """The result as one line: answers a second, and the server's CPU for each."""
    spawned = get_context("spawn")
    ours, theirs = spawned.Pipe()
    server = spawned.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port = ours.recv()
        clients = [socket.create_connection((HOST, port)) for _ in range(count)]
        assert server.pid is not None
        before = cpu_seconds(server.pid)
        answers = ask(clients, seconds)
        cpu_s = cpu_seconds(server.pid) - before
        for client in clients:
            client.close()
    finally:
        server.kill()
        server.join()
    share = f", {cpu_s / seconds:.1%} of a core" if ask is ask_evenly else ""
    return f"{answers / seconds:>9,.0f} answers/s, CPU {cpu_s / answers * 1e6:.1f} us each{share}"


def main(arguments: list[str]) -> None:
    """Measure both servers under both loads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4, help="duration of each measurement")
    seconds = parser.parse_args(arguments).seconds
    for name, serve in (("epoll", serve_on_epoll), ("Trio", serve_on_trio)):
        for title, ask, count in (
            (f"{FEW} connections, one request in flight each", ask_at_once, FEW),
            (f"{MANY:,} connections, {HEARTBEATS_A_SECOND:,.0f} requests/s in all", ask_evenly, MANY),
        ):
            sys.stdout.write(f"bare {name}: {title:<50} {measure(serve, ask, count, seconds)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
