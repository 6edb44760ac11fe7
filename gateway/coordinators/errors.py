"""Converts the failure of a shard's partition to an error for the clients of its coordinator."""

from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode


def unavailable(cause: PartitionUnavailable | StoreError) -> CoordinatorUnavailable:
    """NOT_COORDINATOR if the partition is elsewhere, COORDINATOR_NOT_AVAILABLE if its store fails.

    On the first a client looks up the coordinator again, on the second it repeats the request.
    """
    is_elsewhere = isinstance(cause, PartitionUnavailable) and not cause.is_offline
    return CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE)
