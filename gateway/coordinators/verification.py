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
    be verified. A partition that is unavailable when the verification begins has its error: it may be available when
    the batch is appended, and would get it without a verification. Raises what `ask` raises.
    """
    question = TransactionGuard(batches, adds_partition=adds_partition)
    while True:
        await _open(batches, find)
        logs = _logs(batches, find)
        asked = question.begin(_serving(logs))
        if asked:
            question.answer(await ask(asked), _serving(_logs(batches, find)))
        if not question.is_overtaken(_serving(_logs(batches, find))):
            unavailable = {key: log for key, log in logs.items() if isinstance(log, ErrorCode)}
            return {**question.outcomes, **unavailable} if unavailable else question.outcomes


async def _open(keys: Mapping[K, GuardedBatch], find: Callable[[K], Replica | None]) -> None:
    for key in keys:
        replica = find(key)
        if replica is not None:
            try:
                await replica.ensure_open()
            except PartitionUnavailable:
                continue


def _logs(keys: Mapping[K, GuardedBatch], find: Callable[[K], Replica | None]) -> Mapping[K, GuardedLog | ErrorCode]:
    """The logs, or the errors of those that are not open or that this broker does not lead now.

    Called again after each wait, since leadership may have changed.
    """
    return {key: _log(find(key)) for key in keys}


def _log(replica: Replica | None) -> GuardedLog | ErrorCode:
    if replica is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        return replica.leader
    except PartitionUnavailable as unavailable:
        return unavailable.error


def _serving(logs: Mapping[K, GuardedLog | ErrorCode]) -> Mapping[K, GuardedLog]:
    return {key: log for key, log in logs.items() if not isinstance(log, ErrorCode)}
