"""Faults below every library: a shim (`shim.c`) that makes system calls of a process under test fail.

    faults = Faults(tmp_path)
    process = subprocess.Popen([...], env={**os.environ, **faults.environment})
    faults.fail(".lmdb", calls=["pwrite"], error=errno.EIO, times=1)   # the next write to a segment fails, once
    ...
    faults.lift()

The shim is built once per test run with `cc`; without a compiler the test is skipped with a message. It intercepts
LMDB, whose binding calls libc, and all of Python's file operations. The test and the process share one small file, so
faults can change while the process runs, and the test sees the number and the names of the calls.
"""

import atexit
import errno
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Self

import pytest

CALLS: Final = (
    "write",
    "pwrite",
    "writev",
    "pwritev",
    "fsync",
    "fdatasync",
    "msync",
    "ftruncate",
    "fallocate",
    "open",
    "rename",
    "unlink",
    "mkdir",
    "symlink",
    "copy",
)
"""The calls that can fail, by their numbers in the shim.

`open` also means openat, `rename` renameat, `unlink` unlinkat, `copy` sendfile.
"""
WRITES: Final = CALLS[:4]
"""The calls that can be short."""
ERROR: Final = 0
"""The call is not made, and fails."""
SHORT: Final = 1
"""A write writes half and returns that; calls that write nothing do not fail."""
LATE: Final = 2
"""The call is made, and fails nevertheless: the caller cannot know what is on disk."""
LATE_ONCE: Final = 3
"""The first of the failing calls is made and fails nevertheless; those after it are not made."""
FOREVER: Final = 2**62
META_BYTES: Final = 8192
"""The end of an LMDB file's two meta pages."""

_HEAD: Final = struct.Struct("<IIiIQQQQQ8x448s")
_SEEN_AT: Final = 32
_FAILED_AT: Final = 40
_ACTIVE_AT: Final = 12
_TRACE_AT: Final = _HEAD.size
_TRACE_BYTES: Final = 8192
_COUNT, _FAIL = 1, 2


@cache
def _shim() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("THE FAULT TESTS BELOW LMDB DID NOT RUN: there is no C compiler (cc) to build their shim with")
    directory = Path(tempfile.mkdtemp(prefix="odradek-faults-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    shim = directory / "faults.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(shim), str(source), "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return shim


class Faults:
    """The failures in the processes that were started with `environment`.

    A process under test may also set its own: `Faults.of_this_process()`.
    """

    def __init__(self, directory: Path | None) -> None:
        """`directory` gets one small file; None for a process that was started with another object's `environment`."""
        if directory is None:
            self.environment = {name: os.environ[name] for name in ("LD_PRELOAD", "FAULTS_FILE")}
        else:
            path = directory / "faults.control"
            path.write_bytes(bytes(_TRACE_AT + _TRACE_BYTES))
            self.environment = {"LD_PRELOAD": str(_shim()), "FAULTS_FILE": str(path)}
        with Path(self.environment["FAULTS_FILE"]).open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 0)

    @classmethod
    def of_this_process(cls) -> Self:
        """The faults of the calling process."""
        return cls(None)

    def count(self, path: str = "", calls: Iterable[str] = CALLS) -> None:
        """From now on counts the calls on paths that contain `path`, and lets none fail."""
        self._set(path, calls, ERROR, 0, 1, 0, _COUNT)

    def fail(
        self,
        path: str = "",
        *,
        calls: Iterable[str] = CALLS,
        error: int = errno.EIO,
        mode: int = ERROR,
        first: int = 1,
        times: int = FOREVER,
        below: int = 0,
    ) -> None:
        """Lets `times` calls on paths that contain `path` fail, from the `first` matching one on (counted from 1).

        With `below`, only a pwrite at a lower file position matches: LMDB's meta pages are below `META_BYTES`.
        """
        self._set(path, calls, mode, error, first, times, _FAIL, below)

    def lift(self) -> None:
        """Ends all failures; `seen`, `failed` and `trace` stay as they are."""
        struct.pack_into("<I", self._shared, _ACTIVE_AT, 0)

    def _set(
        self,
        path: str,
        calls: Iterable[str],
        mode: int,
        error: int,
        first: int,
        times: int,
        active: int,
        below: int = 0,
    ) -> None:
        self.lift()
        mask = sum(1 << CALLS.index(call) for call in set(calls))
        _HEAD.pack_into(self._shared, 0, mask, mode, error, 0, first, times, 0, 0, below, path.encode())
        struct.pack_into("<I", self._shared, _ACTIVE_AT, active)

    @property
    def seen(self) -> int:
        """The number of calls that matched since `count` or `fail`."""
        return struct.unpack_from("<Q", self._shared, _SEEN_AT)[0]

    @property
    def failed(self) -> int:
        """The number of matching calls that failed."""
        return struct.unpack_from("<Q", self._shared, _FAILED_AT)[0]

    def trace(self) -> Sequence[str]:
        """The names of the calls that matched, in order (of the first few thousand)."""
        names = self._shared[_TRACE_AT : _TRACE_AT + min(self.seen, _TRACE_BYTES)]
        return [CALLS[number] for number in names]
