"""Signals that end a command: noticed between steps, so that it always knows what it has done.

A node that another process has started is also ended by that process's end (`stop_when_stdin_ends`).
"""

import logging
import os
import select
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)

STOPPING = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The signal received, 0 for none. `descriptor` becomes readable then, so that it can be polled."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.number = 0
        self.descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Pause, but for a signal; whether one has come."""
        if self.descriptor is None:  # outside of the main thread none is noticed
            threading.Event().wait(seconds)
        else:
            select.select([self.descriptor], [], [], seconds)
        return self.number != 0


@contextmanager
def stop_noticed() -> Generator[Stop]:
    """Note the first signal inside the block instead of raising; the second does what it did before the block."""
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    readable, writable = os.pipe()
    stop = Stop(readable)

    def note(number: int, _frame: FrameType | None) -> None:
        stop.number = number
        os.write(writable, b"!")
        _set(before)

    before = {number: signal.getsignal(number) for number in STOPPING}
    _set({number: note for number, handler in before.items() if handler is not signal.SIG_IGN})
    try:
        yield stop
    finally:
        _set(before)
        os.close(readable)
        os.close(writable)


def _set(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def stop_when_stdin_ends() -> None:
    """Send this process SIGTERM when its standard input ends, which is a pipe of the process that has started it.

    A thread waits for it: it also notices the end while the process starts, or while its loop is held up.
    """
    threading.Thread(target=_await_end_of_stdin, name="until-stdin-ends", daemon=True).start()


def _await_end_of_stdin() -> None:
    while os.read(0, 1024):
        pass
    log.warning("the process that started this node has ended: stopping")
    os.kill(os.getpid(), signal.SIGTERM)
