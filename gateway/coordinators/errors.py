"""What the failure of a shard's partition means to the clients of its coordinator."""

from odradek.gateway.errors import CoordinatorUnavailable, PartitionUnavailable
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode


def unavailable(cause: PartitionUnavailable | StoreError) -> CoordinatorUnavailable:
    """NOT_COORDINATOR where the partition is not here, and COORDINATOR_NOT_AVAILABLE while its store fails.

    At the first a client looks for the coordinator, and at the second it repeats the request.
    """
    is_elsewhere = isinstance(cause, PartitionUnavailable) and not cause.is_offline
    return CoordinatorUnavailable(ErrorCode.NOT_COORDINATOR if is_elsewhere else ErrorCode.COORDINATOR_NOT_AVAILABLE)
