"""Imports that do not wait for the garbage collector.

Importing makes many objects that stay, and the collector would look at all of them again and again: a tenth of the time
that a broker takes to start.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep the garbage collector from running inside the block; what it was set to holds again after it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
