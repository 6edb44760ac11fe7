"""Opens the logs that one request is about to use, some of them concurrently.

A log that is opened for the first time is created, which waits for the disk several times. To create all logs of a
topic in sequence on a slow disk could take a consumer longer than its session time-out.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import trio

from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.replica import Replica, ReplicaState
from odradek.gateway.server.context import TURN_EVERY, RequestContext

OPENED_AT_ONCE: Final = 4
"""The maximum number of logs that one request opens at a time: far below the number of threads, which commits need."""


async def open_all(ctx: RequestContext, replicas: Iterable[Replica | None]) -> None:
    """Open closed logs concurrently if there are at least two; a single one is opened at its use.

    A log that cannot be opened stays closed, and `Replica.ensure_open` raises the cause at its next use.
    """
    closed: list[Replica] = []
    for number, replica in enumerate(replicas, 1):
        if not number % TURN_EVERY:
            await ctx.checkpoint()
        if replica is not None and replica.state is ReplicaState.CLOSED:
            closed.append(replica)
    if len(closed) > 1:
        left = iter(closed)
        async with trio.open_nursery() as nursery:
            for _ in range(OPENED_AT_ONCE):
                nursery.start_soon(_open_each, left)


async def _open_each(left: Iterator[Replica]) -> None:
    for replica in left:
        try:
            await replica.ensure_open()
        except PartitionUnavailable:
            continue  # its next use opens it again, or raises the cause
