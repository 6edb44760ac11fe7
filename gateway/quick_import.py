"""Imports that do not wait for the garbage collector.

Importing makes many objects that stay, and the collector would look at all of them again and again: a tenth of the time
that a broker takes to start.
"""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep the garbage collector from running inside the block; what it was set to holds again after it."""
    was_enabled = gc.isenabled()
    modules = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if len(sys.modules) > modules:
                _count_as_old()
            gc.enable()


def _count_as_old() -> None:
    """Leave all objects that there are to full collections; else the first collection would still look at each.

    Where the program has frozen objects, they stay so and the first collection takes its time.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()  # into the oldest generation
