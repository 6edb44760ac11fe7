"""Errors of the gateway itself, named by who broke what; they become Kafka's error codes in one place each."""

import re
from typing import cast

from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode


class StartError(Exception):
    """The broker cannot start; the message tells the operator why."""


class PartitionUnavailable(Exception):  # noqa: N818 - errors are named by condition
    """This broker does not serve the partition now; `error` is the code that Kafka answers with.

    UNKNOWN_TOPIC_OR_PARTITION: there is no such partition, or it was deleted. UNKNOWN_TOPIC_ID: no topic has the id.
    INCONSISTENT_TOPIC_ID: the topic of that name has another id. NOT_LEADER_OR_FOLLOWER: another broker leads it, or
    this one has no replica of it. KAFKA_STORAGE_ERROR: its log cannot be opened, read or written.
    """

    def __init__(self, error: ErrorCode, partition: object) -> None:
        super().__init__(f"{partition} {error.name}")
        self.error = error

    @property
    def is_offline(self) -> bool:
        """Whether the store failed; the log is opened again by a later call."""
        return self.error is ErrorCode.KAFKA_STORAGE_ERROR


class PeerError(Exception):
    """What the peer sent cannot be answered; the connection is closed. The message goes to the log."""

    @property
    def kind(self) -> str:
        """A key for errors of one kind: the message up to the first part that differs from case to case."""
        return re.split(r"[\d:'\"]", str(self), maxsplit=1)[0]


class RequestRefusedError(PeerError):
    """A request that Kafka refuses by closing the connection, since it has no response to carry the error."""


class CoordinatorUnavailable(Exception):  # noqa: N818 - errors are named by condition
    """The coordinator's shard does not answer now; `error` is the code that Kafka answers with."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class TooLargeError(CoordinatorUnavailable):
    """What the operation would write is more than the partition takes in one batch; nothing of it has happened."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)


def error_of_store(error: StoreError) -> ErrorCode:
    """The error code for a request under which a store failed."""
    del error  # whatever it was, the log of the broker says it; clients know one code
    return ErrorCode.KAFKA_STORAGE_ERROR


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in nested groups that is not a group itself, for reports."""
    error = group.exceptions[0]
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
