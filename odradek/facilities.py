"""Which facilities of the operating system are there: modules with a form for Linux and a portable one ask here.

A facility is present if its name exists on this platform and is not hidden. The environment variable
`ODRADEK_HIDDEN_FACILITIES` hides some (`epoll,inotify`) or all (`all`) of them, so that the portable forms run on Linux
too, in tests and by hand. It is read once, when a process starts. A seam asks once, at its import or at the start of
the broker, and not for each operation.

A type checker follows `sys.platform` only, so the form for Linux is chosen by both:
`if sys.platform == "linux" and has("epoll")`.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

VARIABLE: Final = "ODRADEK_HIDDEN_FACILITIES"
ALL: Final = "all"


def _is_in(module: str, *names: str) -> Callable[[], bool]:
    """A test for the names in a module of the standard library that may itself be missing."""

    def is_there() -> bool:
        if find_spec(module) is None:
            return False
        found = __import__(module)
        return all(hasattr(found, name) for name in names)

    return is_there


def _has_file(path: str) -> Callable[[], bool]:
    return lambda: Path(path).exists()


FACILITIES: Final[Mapping[str, Callable[[], bool]]] = {
    "epoll": _is_in("select", "epoll"),
    "proc": _has_file("/proc/self/stat"),
    "boot_id": _has_file("/proc/sys/kernel/random/boot_id"),
    "memfd": _is_in("os", "memfd_create"),
    "posix_fallocate": _is_in("os", "posix_fallocate"),
    "fcntl": _is_in("fcntl", "flock"),
    "resource": _is_in("resource", "getrlimit"),
    "sendmsg": _is_in("_socket", "CMSG_LEN"),
    "unix_sockets": _is_in("socket", "AF_UNIX"),
    "fullfsync": _is_in("fcntl", "F_FULLFSYNC"),
    "grown_files": lambda: os.name == "posix",  # a file has no more than the pages written to it
    "inotify": _has_file("/proc/self/fd"),
    "libc": lambda: os.name == "posix",  # its functions, through `ctypes`
    "poll": _is_in("select", "poll"),
    "pread": _is_in("os", "pread"),
    "st_blocks": lambda: hasattr(os.stat_result, "st_blocks"),
    "thread_cpu_clock": _is_in("time", "pthread_getcpuclockid"),
}
"""How the presence of each is found. A new one gets a line here, so that `all` hides it too."""


def _hidden() -> frozenset[str]:
    names = frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(",")) - {""}
    unknown = names - FACILITIES.keys() - {ALL}
    if unknown:
        known = ", ".join(sorted(FACILITIES))
        raise ValueError(f"{VARIABLE} names {', '.join(sorted(unknown))}, which is not one of: {ALL}, {known}")
    return names


HIDDEN: Final = _hidden()


def has(name: str) -> bool:
    """Whether the facility is there and not hidden. Raises KeyError for a name that is not in `FACILITIES`."""
    is_there = FACILITIES[name]
    return not (ALL in HIDDEN or name in HIDDEN) and is_there()
