"""Imports that do not wait for the garbage collector.

Importing creates many long-lived objects, and the collector would examine all of them repeatedly, which takes a tenth
of a broker's start.
"""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Keep the garbage collector from running inside the block; afterwards restore its setting."""
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
    """Move all existing objects to the oldest generation; otherwise the first collection would examine each of them.

    If the program has frozen objects, this does nothing, since unfreezing would affect those, too; the first collection
    then examines all objects.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()  # moves them to the oldest generation
