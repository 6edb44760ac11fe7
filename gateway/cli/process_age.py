"""How long this process has been running."""

import sys
import time
from typing import Final

from odradek.facilities import has

_IMPORTED_AT_S: Final = time.monotonic()


def _since_import_ms() -> float:
    return (time.monotonic() - _IMPORTED_AT_S) * 1000


if sys.platform == "linux" and has("proc"):
    import os
    from pathlib import Path

    def process_age_ms() -> float:
        """Milliseconds since this process was started, to within 10 ms."""
        try:
            # proc(5): field 22 is in ticks since boot; field 2, in parentheses, may contain spaces
            started = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
        except OSError:
            return _since_import_ms()
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")) * 1000

else:

    def process_age_ms() -> float:
        """Milliseconds since this module was imported, as this system does not tell when a process was started."""
        return _since_import_ms()
