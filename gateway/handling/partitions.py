"""Converts a partition's failure to an error code, for the APIs that work on partitions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from uuid import UUID

from odradek.gateway.assembly import Services
from odradek.gateway.errors import PartitionUnavailable, error_of_store
from odradek.gateway.replication.replica import Replica
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.schema.types import ZERO_UUID

log = logging.getLogger(__name__)

R = TypeVar("R")

PARTITION_FAILURES: Final = (PartitionUnavailable, StoreError, InvalidRecordBatch)
"""The exceptions of work on a partition that have an error code: see `error_of_partition`."""


def error_of_partition(failure: Exception) -> ErrorCode:
    """The error code of one of `PARTITION_FAILURES`.

    PartitionUnavailable has its own code; that of a failed store is KAFKA_STORAGE_ERROR. A batch that cannot be decoded
    is CORRUPT_MESSAGE: batches are stored as producers sent them, invalid compression included.
    """
    if isinstance(failure, PartitionUnavailable):
        return failure.error
    return error_of_store(failure) if isinstance(failure, StoreError) else ErrorCode.CORRUPT_MESSAGE


async def answer_of_partition(answer: Awaitable[R], refused: Callable[[ErrorCode], R]) -> R:
    """The response about one partition, or the result of `refused` for the error code of its failure."""
    try:
        return await answer
    except PARTITION_FAILURES as failure:
        return refused(error_of_partition(failure))


async def answer_of_store(services: Services, answer: Awaitable[R], refused: Callable[[ErrorCode], R]) -> R:
    """The response about the whole store, or the result of `refused` for its failure, which is logged."""
    try:
        return await answer
    except StoreError as failure:
        services.repeats.note("look at the store", log, logging.ERROR, "cannot look at the store cause=%s", failure)
        return refused(error_of_store(failure))


def replica_or_error(
    services: Services, topic: str | None, index: int, topic_id: UUID = ZERO_UUID
) -> Replica | ErrorCode:
    """The result of `Replicas.find`, or the code of its error."""
    try:
        return services.replicas.find(topic, index, topic_id)
    except PartitionUnavailable as unavailable:
        return unavailable.error
