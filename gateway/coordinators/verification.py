"""Verifies with the transaction coordinator that partitions are in a producer's transaction (KIP-890)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.replica import Replica
from odradek.partitions.transaction_guard import GuardedBatch, GuardedLog, TransactionGuard, VerificationGuard
from odradek.wire.errors import ErrorCode

K = TypeVar("K")


async def verified(
    batches: Mapping[K, GuardedBatch],
    find: Callable[[K], Replica | None],
    ask: Callable[[Sequence[K]], Awaitable[Mapping[K, ErrorCode]]],
    *,
    adds_partition: bool,
) -> Mapping[K, VerificationGuard | ErrorCode]:
    """The guard to append with, or the error that refuses the batch, for each partition that had to be verified.

    `find` returns the replica of a partition, and `ask` the coordinator's results; it is called only if something must
    be verified. An unavailable partition is skipped; appending to it then fails. Raises what `ask` raises.
    """
    question = TransactionGuard(batches, adds_partition=adds_partition)
    while True:
        await _open(batches, find)
        asked = question.begin(_serving(batches, find))
        if asked:
            question.answer(await ask(asked), _serving(batches, find))
        if not question.is_overtaken(_serving(batches, find)):
            return question.outcomes


async def _open(keys: Mapping[K, GuardedBatch], find: Callable[[K], Replica | None]) -> None:
    for key in keys:
        replica = find(key)
        if replica is not None:
            try:
                await replica.ensure_open()
            except PartitionUnavailable:
                continue


def _serving(keys: Mapping[K, GuardedBatch], find: Callable[[K], Replica | None]) -> Mapping[K, GuardedLog]:
    """The open logs that this broker leads now. Called again after each wait, since leadership may have changed."""
    serving: dict[K, GuardedLog] = {}
    for key in keys:
        replica = find(key)
        if replica is not None:
            try:
                serving[key] = replica.leader
            except PartitionUnavailable:
                continue
    return serving
