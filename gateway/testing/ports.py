"""Ports for brokers that are started as processes of their own, and must know their ports before they start."""

import secrets
import socket
from contextlib import ExitStack
from typing import Final

FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_000
"""Below the range that systems take the ports of outgoing connections from: a broker that is down keeps its port."""
ATTEMPTS: Final = 1000
# By chance, and not in order, so that processes that start brokers at the same time take different ones; the chance is
# not that of `random`, since test runs give all their processes one seed.


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback interface that are not in use. Raises OSError when none are found."""
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            ports += _bound(1, held)
    return ports


def free_ports_in_a_row(count: int) -> range:
    """As `free_ports`, each one more than the one before it."""
    with ExitStack() as held:
        return _bound(count, held)


def _bound(count: int, held: ExitStack) -> range:
    """Ports in a row, in use as long as `held` is not closed."""
    for _ in range(ATTEMPTS):
        first = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT - count)
        ports = range(first, first + count)
        with ExitStack() as attempt:
            try:
                for port in ports:
                    attempt.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            held.enter_context(attempt.pop_all())
            return ports
    raise OSError(f"no free port from {FIRST_PORT} to {LAST_PORT}")
