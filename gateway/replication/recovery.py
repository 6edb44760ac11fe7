"""Decides when a failed log is retried, and logs its failures.

A failure begins with the first failed attempt and ends with the first that succeeds: one log line for each, the second
with the numbers of failed and refused attempts. After the first failed attempt the next may follow at once; each
further one waits for `backoff_ms`, doubled each time up to `backoff_max_ms`. Attempts in between are refused without
using the disk. A log that fails again within `backoff_max_ms` of its recovery continues with the longer pauses.

If the disk is full, or the process lacks descriptors or memory, all logs fail for one cause: it is logged for the first
of them, and then with a count (`Repeats`).
"""

import logging
from collections.abc import Hashable
from typing import Final

from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.storage_backends.interface import DiskFullError, StoreError, StoreExhaustedError
from odradek.wire.values import immutable

log = logging.getLogger(__name__)

MAX_DOUBLINGS: Final = 30


@immutable
class Backoff:
    """The pauses between attempts."""

    backoff_ms: int = 100
    backoff_max_ms: int = 10_000

    def pause_ms(self, failures: int) -> int:
        """The pause after this number of failed attempts; none after the first."""
        if failures < 2:
            return 0
        return min(self.backoff_ms << min(failures - 2, MAX_DOUBLINGS), self.backoff_max_ms)


class RetryTimer:
    """Decides whether one kind of attempt may be made now."""

    def __init__(self, env: Environment, backoff: Backoff) -> None:
        self.is_failing = False
        self._env = env
        self._backoff = backoff
        self._failures = 0
        self._at_ms = 0

    @property
    def wait_ms(self) -> int:
        """The time until an attempt may be made; 0 if one may be made now."""
        return max(self._at_ms - self._env.monotonic_ms(), 0) if self.is_failing else 0

    def failed(self) -> None:
        """Note that an attempt has failed."""
        now_ms = self._env.monotonic_ms()
        if not self.is_failing and now_ms - self._at_ms > self._backoff.backoff_max_ms:
            self._failures = 0
        self._failures += 1
        self.is_failing, self._at_ms = True, now_ms + self._backoff.pause_ms(self._failures)

    def succeeded(self) -> None:
        """Note that an attempt has succeeded."""
        if self.is_failing:
            self.is_failing, self._at_ms = False, self._env.monotonic_ms()


class Recovery:
    """The failures of one log: to open it, and to write to it. `name` identifies it in the log."""

    def __init__(self, name: Hashable, env: Environment, backoff: Backoff, repeats: Repeats) -> None:
        self.opening = RetryTimer(env, backoff)
        self.writing = RetryTimer(env, backoff)
        self._name = name
        self._repeats = repeats
        self._common = ""
        self._failures = 0
        self._refused = 0

    @property
    def is_failing(self) -> bool:
        """True if the last attempt to open the log, or the last to write to it, has failed. From any thread."""
        return self.opening.is_failing or self.writing.is_failing

    @property
    def is_first(self) -> bool:
        """True if the current failure has one failed attempt so far, and a cause that affects only this log."""
        return self._failures == 1 and not self._common

    def may_try(self, timer: RetryTimer) -> bool:
        """True if an attempt may be made now; otherwise it is counted as refused."""
        if not timer.wait_ms:
            return True
        self._refused += 1
        return False

    def failed(self, timer: RetryTimer, message: str, error: Exception, *, trace: bool = False) -> None:
        """Note a failed attempt. The first of a failure is logged with its `message`."""
        if not self._failures:
            self._common = shared_cause(error)
        if self._common:
            text = "%s partition=%s error=%s; it is tried again, and further failures of this or other logs are counted"
            self._repeats.note((message, self._common), log, logging.ERROR, text, message, self._name, error)
        elif not self._failures:
            log.error(
                "%s partition=%s error=%s; it is tried again, and the next line about it says when it succeeded",
                message,
                self._name,
                error,
                exc_info=(error.__cause__ or error) if trace else None,
            )
        self._failures += 1
        timer.failed()

    def succeeded(self, timer: RetryTimer, log_end_offset: int) -> None:
        """Note an attempt that succeeded."""
        timer.succeeded()
        if self._failures and not self.is_failing:
            text = "partition loaded again partition=%s log_end_offset=%d failed_attempts=%d refused_attempts=%d"
            args = (self._name, log_end_offset, self._failures, self._refused)
            if self._common:
                self._repeats.note(("loaded again", self._common), log, logging.INFO, text, *args)
            else:
                log.info(text, *args)
            self._failures = self._refused = 0
            self._common = ""


class Episodes:
    """Failures of periodic work, each logged when it begins and when it ends.

    The period is the pause between attempts.
    """

    def __init__(self, logger: logging.Logger, repeats: Repeats, level: int = logging.WARNING) -> None:
        self._logger = logger
        self._repeats = repeats
        self._level = level
        self._failures: dict[Hashable, int] = {}

    def failed(self, name: Hashable, message: str, error: Exception) -> None:
        """Log the first failure of `name`, and count those that follow."""
        common = shared_cause(error)
        if common:
            text = "%s partition=%s cause=%s; further failures of this or other partitions are counted"
            self._repeats.note((message, common), self._logger, self._level, text, message, name, error)
            return
        count = self._failures.get(name, 0)
        self._failures[name] = count + 1
        if not count:
            text = "%s partition=%s cause=%s; further failures are counted"
            self._logger.log(self._level, text, message, name, error)

    def succeeded(self, name: Hashable, message: str) -> None:
        """Log that a previously failed operation has succeeded."""
        count = self._failures.pop(name, 0)
        if count:
            self._logger.info("%s again partition=%s failed_attempts=%d", message, name, count)

    def forget(self, name: Hashable) -> None:
        """Drop the state of a deleted partition."""
        self._failures.pop(name, None)


def shared_cause(error: BaseException) -> str:
    """Return "full" or "exhausted" for an error of the whole disk or process, "" for one of a single log."""
    return "full" if _has_cause(error, DiskFullError) else "exhausted" if exhausted(error) else ""


def exhausted(error: BaseException) -> bool:
    """True if the process lacks descriptors or memory, which is not the log's fault."""
    return _has_cause(error, StoreExhaustedError)


def _has_cause(error: BaseException, kind: type[StoreError]) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__
    return cause is not None
