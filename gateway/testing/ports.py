"""Ports for brokers that run as separate processes, whose ports must be known before they start."""

import atexit
import secrets
import socket
from contextlib import ExitStack
from typing import Final

FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_000
"""Below the range of ports of outgoing connections, so that none takes the port of a broker that is down."""
HOST: Final = "127.0.0.1"
ATTEMPTS: Final = 1000
# Ports are chosen at random, not in order, so that most attempts succeed; with `secrets`, not `random`, since test runs
# seed `random` the same in all their processes.

_reserved: Final = ExitStack()
"""UDP sockets bound to the ports that this process has returned. They do not block the brokers, which listen with TCP,
but another process, or a second call, cannot bind the same UDP port, and so takes another port. The reservation holds
while a broker is down, and ends with the process, in whatever way the process ends."""
atexit.register(_reserved.close)


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback interface that are not in use, and that stay reserved for this process.

    No other call returns them, in any process. Raises OSError when none are found.
    """
    return [port for _ in range(count) for port in free_ports_in_a_row(1)]


def free_ports_in_a_row(count: int) -> range:
    """As `free_ports`, with consecutive numbers."""
    for _ in range(ATTEMPTS):
        first = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT - count)
        ports = range(first, first + count)
        with ExitStack() as attempt:
            try:
                for port in ports:
                    attempt.enter_context(_reserve(port))
            except OSError:
                continue
            _reserved.push(attempt.pop_all())
            return ports
    raise OSError(f"no free port from {FIRST_PORT} to {LAST_PORT}")


def _reserve(port: int) -> socket.socket:
    """Reserve a port. Raises OSError if it is reserved already, or something listens on it."""
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind((HOST, port))
        socket.create_server((HOST, port)).close()
    except OSError:
        reservation.close()
        raise
    return reservation
