"""The limit of the process's open files, where the system has one that it tells."""

import sys
from typing import Final

from odradek.facilities import has

UNLIMITED: Final = 2**31 - 1

if sys.platform != "win32" and has("resource"):
    import resource

    _MOST: Final = 10_240 if sys.platform == "darwin" else resource.RLIM_INFINITY
    """macOS shows an infinite hard limit and refuses more than this."""

    def open_files_limit() -> int:
        """The number of files that the process may have open, sockets included; `UNLIMITED` without a limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return UNLIMITED if soft == resource.RLIM_INFINITY else soft

    def allow_many_open_files() -> None:
        """Raise the limit as far as it goes, since every connection and open segment needs descriptors."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST if hard == resource.RLIM_INFINITY else hard
        if soft not in (most, resource.RLIM_INFINITY):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

else:

    def open_files_limit() -> int:
        """`UNLIMITED`: this system has no limit that a process can read."""
        return UNLIMITED

    def allow_many_open_files() -> None:
        """Do nothing."""
