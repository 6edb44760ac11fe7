"""Decides which failures of a cluster are temporary, and how long to retry."""

# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.wire_client import RETRIABLE, BrokerError, TopicGoneError
from odradek.pipeline.wire_socket import ConnectionLostError
from odradek.wire.errors import ErrorCode

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
NO_LEADER: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""The partition has no leader, another one, or one that has just been elected."""
_PASSING: Final = frozenset(
    {
        *RETRIABLE,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - its public names
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
    }
)


def may_pass(error: PipelineError) -> bool:
    """Return True if a retry may succeed: a broker is unreachable, a coordinator is loading, a topic was just
    deleted.
    """
    if isinstance(error, ConnectionLostError | TopicGoneError):
        return True
    if isinstance(error, BrokerError):
        return error.code in RETRIABLE
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in _PASSING


class Retries:
    """Waits between attempts, longer each time. `is_over` is True after `limit_s` without progress; None: never."""

    def __init__(self, limit_s: float | None, stopping: Callable[[], bool]) -> None:
        self._limit_s, self._stopping = limit_s, stopping
        self.progress()

    def progress(self) -> None:
        """Reset the time and the pauses, after progress."""
        self._pause_s, self._since_s, self.is_first = FIRST_PAUSE_S, time.monotonic(), True

    @property
    def is_over(self) -> bool:
        """True if `limit_s` has passed without progress."""
        return self._limit_s is not None and time.monotonic() - self._since_s > self._limit_s

    def wait(self) -> None:
        """Pause; returns early if the job has to stop."""
        until_s = time.monotonic() + self._pause_s
        while not self._stopping() and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, FIRST_PAUSE_S))
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self.is_first = False
