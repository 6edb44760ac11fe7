"""Errors of the gateway itself, named by cause; each is converted to Kafka's error codes in one place."""

import logging
import re
from typing import cast

from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode

log = logging.getLogger(__name__)


class StartError(Exception):
    """The broker cannot start; the message gives the reason to the operator."""


class MetadataLostError(Exception):
    """The metadata log lacks what it had, or a snapshot that it continues; the message says what, without advice."""


class PartitionUnavailable(Exception):  # noqa: N818 - errors are named by condition
    """This broker does not serve the partition now; `error` is the error code that Kafka returns.

    UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist, or was deleted. UNKNOWN_TOPIC_ID: no topic has the id.
    INCONSISTENT_TOPIC_ID: the topic of that name has another id. NOT_LEADER_OR_FOLLOWER: another broker leads it, or
    this one has no replica of it. KAFKA_STORAGE_ERROR: its log cannot be opened, read or written. Only writes of
    transaction markers fail with LEADER_NOT_AVAILABLE, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT (the log was opened too
    late), or the error code of a leader on another broker.
    """

    def __init__(self, error: ErrorCode, partition: object) -> None:
        super().__init__(f"{partition} {error.name}")
        self.error = error

    @property
    def is_offline(self) -> bool:
        """True if the store failed; a later call opens the log again."""
        return self.error is ErrorCode.KAFKA_STORAGE_ERROR


class PeerError(Exception):
    """The peer's input cannot be answered; the connection is closed. The message is logged."""

    @property
    def kind(self) -> str:
        """A key for errors of one kind: the message up to its first variable part."""
        return re.split(r"[\d:'\"]", str(self), maxsplit=1)[0]


class RequestRefusedError(PeerError):
    """A request that is refused by closing the connection.

    Produce with acks=0 has no response to carry the error. An isolation level that does not exist is a defect of the
    client, which Kafka answers with UNKNOWN_SERVER_ERROR (docs/differences.md). A request of the quorum that waits
    longer than other nodes do, since this node's disk does not work, has no response that is still awaited.
    """


class CoordinatorUnavailable(Exception):  # noqa: N818 - errors are named by condition
    """The coordinator's shard is unavailable now; `error` is the error code that Kafka returns."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class TooLargeError(CoordinatorUnavailable):
    """The operation's records exceed the maximum size of one batch; nothing of it was carried out."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)


def error_of_store(error: StoreError) -> ErrorCode:
    """The error code of a request during which a store failed."""
    del error  # the broker's log has the cause; clients get one code for all
    return ErrorCode.KAFKA_STORAGE_ERROR


def received_error(code: int) -> ErrorCode:
    """The error code in the response of another node.

    A code that this version does not know, from a node of a later version, counts as UNKNOWN_SERVER_ERROR, as Kafka's
    clients and brokers do, and is logged.
    """
    try:
        return ErrorCode(code)
    except ValueError:
        log.warning("unknown error code in a response code=%d; it counts as UNKNOWN_SERVER_ERROR", code)
        return ErrorCode.UNKNOWN_SERVER_ERROR


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception in nested groups that is not a group itself, for reports."""
    error = group.exceptions[0]
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
