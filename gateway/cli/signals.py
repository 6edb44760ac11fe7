"""Signals that end a command. The command checks for them between steps, so that it can report what it has done.

A node that another process has started also ends when that process ends (`stop_when_stdin_ends`).
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
    """The number of the received signal, or 0. A signal makes `descriptor` readable, so that it can be polled."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.number = 0
        self.descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Sleep until `seconds` have passed or a signal is received; returns True if one has been received."""
        if self.descriptor is None:  # signals are only received in the main thread
            threading.Event().wait(seconds)
        else:
            readable = select.poll()
            readable.register(self.descriptor, select.POLLIN)
            readable.poll(seconds * 1000)
        return self.number != 0


@contextmanager
def stop_noticed() -> Generator[Stop]:
    """Record the first signal inside the block in the `Stop`; a second one runs the handler from before the block.

    In threads other than the main thread, no signal is recorded.
    """
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
    """Send this process SIGTERM when its standard input ends, a pipe from the process that started it.

    A thread waits for the end, so that it is also detected while this process starts or its event loop is blocked.
    """
    threading.Thread(target=_await_end_of_stdin, name="until-stdin-ends", daemon=True).start()


def _await_end_of_stdin() -> None:
    while os.read(0, 1024):
        pass
    log.warning("the process that started this node has ended: stopping")
    os.kill(os.getpid(), signal.SIGTERM)
