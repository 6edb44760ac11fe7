"""Imports, in a worker thread, what the broker imports at its first use.

A broker starts quickly because handlers and the coordinators' decisions are imported late. Importing them when the
first request comes takes up to a tenth of a second, in which no client is answered. So a worker thread imports them one
after the other as soon as the broker serves. A request that comes earlier imports what it needs itself. The broker
inside a test does without: it serves few requests, and most tests are over before the imports would be.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final

import trio

from odradek.gateway.env.environment import Environment
from odradek.wire.api_keys import ADVERTISED

FIRST_PAUSE_S: Final = 0.1
"""How long the clients that have waited for the start are served without a thread that imports."""
PAUSE_S: Final = 0.001
"""How long the interpreter is left to requests after each module."""

_LATE: Final = (
    "odradek.coordinator.groups.shard",
    "odradek.coordinator.transactions.shard",
    "odradek.coordinator.transactions.init",
    "odradek.coordinator.transactions.end",
    "odradek.coordinator.groups.consumer.resolver",
    "odradek.coordinator.regex",
    "odradek.coordinator.metadata.controller.auto_create",
    "odradek.coordinator.metadata.controller.producer_ids",
)
_AMONG_OTHERS: Final = (
    "odradek.gateway.peers.peer",
    "odradek.gateway.coordinators.remote_transactions",
    "odradek.coordinator.metadata.controller.balancing",
    "odradek.wire.messages.alter_partition",
)


def late_modules(*, is_alone: bool) -> list[str]:
    """The modules by name, those first that most clients need first: groups, then the handlers in the APIs' order.

    A node that is not alone needs more: what it asks other nodes, and what it decides when one of them is lost.
    """
    handlers = [f"odradek.gateway.handlers.{key.name.lower()}" for key in ADVERTISED]
    return [*_LATE, *([] if is_alone else _AMONG_OTHERS), *handlers]


async def import_early(env: Environment, is_stopping: Callable[[], bool], *, is_alone: bool) -> None:
    """Import them all, or until the broker stops; it takes some tenths of a second, in worker threads."""
    await trio.sleep(FIRST_PAUSE_S)
    for name in late_modules(is_alone=is_alone):
        if is_stopping():
            return
        await env.run_blocking(partial(import_module, name))
        await trio.sleep(PAUSE_S)
