"""Imports, in a worker thread, modules that the broker would otherwise import at their first use.

A broker starts quickly because handlers and the coordinators' shards are imported late. Importing them when the first
request comes takes up to a tenth of a second, in which no client is answered. So a worker thread imports them one after
the other as soon as the broker serves. A request that comes earlier imports what it needs itself. A broker inside a
test does not do this: it serves few requests, and most tests end before the imports would.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final

import trio

from odradek.gateway.env.environment import Environment
from odradek.wire.api_keys import ADVERTISED

FIRST_PAUSE_S: Final = 0.1
"""The pause before the first import, in which clients that waited for the start are served."""
PAUSE_S: Final = 0.001
"""The pause after each module, in which the interpreter is free for requests."""

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
    """The names of the modules: the coordinators' first, with groups at the head, then handlers in the APIs' order.

    A node in a cluster of several needs more: requests to other nodes, and decisions after the loss of a node.
    """
    handlers = [f"odradek.gateway.handlers.{key.name.lower()}" for key in ADVERTISED]
    return [*_LATE, *([] if is_alone else _AMONG_OTHERS), *handlers]


async def import_early(env: Environment, is_stopping: Callable[[], bool], *, is_alone: bool) -> None:
    """Import the late modules in worker threads, which takes some tenths of a second; stop when the broker stops."""
    await trio.sleep(FIRST_PAUSE_S)
    for name in late_modules(is_alone=is_alone):
        if is_stopping():
            return
        await env.run_blocking(partial(import_module, name))
        await trio.sleep(PAUSE_S)
