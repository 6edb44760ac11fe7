"""Waits for descriptors and for signals at once, with poll(2), where the system has it; Windows has not.

Without it a command reads and writes as if no signal could come: a signal takes effect between two reads or writes.
"""

import select
import sys
from collections.abc import Sequence
from typing import Final

from odradek.facilities import has

if sys.platform != "win32" and has("poll"):

    def await_input(descriptors: Sequence[int], timeout_ms: float | None = None) -> None:
        """Wait until one of the descriptors is readable, or the time is over."""
        watched = select.poll()
        for each in descriptors:
            watched.register(each, select.POLLIN)
        watched.poll(timeout_ms)

    def is_writable(descriptor: int, or_readable: int | None) -> bool:
        """Wait until `descriptor` can be written to, or `or_readable` read; returns True for the former."""
        watched = select.poll()
        watched.register(descriptor, select.POLLOUT)
        if or_readable is not None:
            watched.register(or_readable, select.POLLIN)
        return any(each == descriptor for each, _ in watched.poll())

    def has_lost_its_reader(descriptor: int) -> bool:
        """True if the descriptor is a pipe that nothing reads any more."""
        watched = select.poll()
        watched.register(descriptor, select.POLLOUT)
        return any(event & select.POLLERR for _, event in watched.poll(0))

else:

    def await_input(descriptors: Sequence[int], timeout_ms: float | None = None) -> None:
        """Return at once: the read that follows waits."""
        del descriptors, timeout_ms

    def is_writable(descriptor: int, or_readable: int | None) -> bool:
        """Return True at once: the write that follows waits."""
        del descriptor, or_readable
        return True

    def has_lost_its_reader(descriptor: int) -> bool:
        """Return False: only a write finds it."""
        del descriptor
        return False


CAN_POLL: Final = sys.platform != "win32" and has("poll")
NEVER_BLOCKING_BYTES: Final = select.PIPE_BUF if sys.platform != "win32" and has("poll") else 65_536
"""The largest write that certainly does not block on a pipe that is ready for writing; without poll, any size."""
