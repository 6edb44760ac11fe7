"""The signals that ask a process to stop, and how another process asks, on this system."""

import os
import signal
import sys
from typing import Final

STOP_SIGNALS: Final[tuple[signal.Signals, ...]] = (
    (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK) if sys.platform == "win32" else (signal.SIGTERM, signal.SIGINT)
)

ASK_TO_STOP: Final[int] = signal.CTRL_BREAK_EVENT if sys.platform == "win32" else signal.SIGTERM
"""What `send_signal` of a child process takes. On Windows SIGTERM would end the process at once, and a process gets
CTRL_BREAK_EVENT if it leads a process group and has a console."""


def stop_this_process() -> None:
    """Raise SIGTERM in this process, from any thread; its handler runs in the main thread."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGTERM)  # os.kill would end the process without its handler
    else:
        os.kill(os.getpid(), signal.SIGTERM)
