"""Signals that end a command. The command checks for them between steps, so that it can report what it has done.

A node that another process has started also ends when that process ends (`stop_when_stdin_ends`).
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from odradek.gateway.cli.polling import CAN_POLL, await_input
from odradek.gateway.env.stop_signals import STOP_SIGNALS, stop_this_process

log = logging.getLogger(__name__)

_NOTICED_WITHIN_S: Final = 0.1
"""Where a signal does not end a wait, it is looked for so often."""


class Stop:
    """The number of the received signal, or 0.

    A signal makes `descriptor` readable, so that it can be polled. There is none where descriptors cannot be polled,
    and in threads other than the main one, which receive no signals.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.number = 0
        self.descriptor = descriptor

    def wait(self, seconds: float) -> bool:
        """Sleep until `seconds` have passed or a signal is received; returns True if one has been received."""
        if self.descriptor is not None:
            await_input([self.descriptor], seconds * 1000)
        elif threading.current_thread() is not threading.main_thread():
            threading.Event().wait(seconds)
        else:
            end_s = time.monotonic() + seconds
            while not self.number and (left_s := end_s - time.monotonic()) > 0:
                time.sleep(min(left_s, _NOTICED_WITHIN_S))
        return self.number != 0


@contextmanager
def stop_noticed() -> Generator[Stop]:
    """Record the first signal inside the block in the `Stop`; a second one runs the handler from before the block.

    In threads other than the main thread, no signal is recorded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    with _pipe() as (readable, writable):
        stop = Stop(readable)

        def note(number: int, _frame: FrameType | None) -> None:
            stop.number = number
            if writable is not None:
                os.write(writable, b"!")
            _set(before)

        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        _set({number: note for number, handler in before.items() if handler is not signal.SIG_IGN})
        try:
            yield stop
        finally:
            _set(before)


@contextmanager
def _pipe() -> Generator[tuple[int, int] | tuple[None, None]]:
    """The ends of a pipe, for reading and for writing, where it can be polled."""
    if not CAN_POLL:
        yield None, None
        return
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


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
    stop_this_process()
