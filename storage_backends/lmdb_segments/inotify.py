"""Detects that other programs open or change a file, without reading the file's times: inotify(7) of Linux.

The kernel queues an event before the other program's call returns, so `Watch.look` misses nothing that happened before
it. A program has to open a file to write to it, hence the events: opened, removed, renamed, or other metadata. Not
detected are truncate(2), for which callers compare sizes, and writes by a program that had the file open before.

A file's change time would show the same, but is expensive: Linux from 6.13 on gives a file whose time was read a new
one with its next write, which the next sync then has to store.
"""

import ctypes
import os
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock
from typing import Final

assert sys.platform == "linux"

_OPEN: Final = 0x20
_ATTRIB: Final = 0x4  # also for a removed name
_MOVE_SELF: Final = 0x800
_OVERFLOW: Final = 0x4000
_EVENTS: Final = _OPEN | _ATTRIB | _MOVE_SELF
EVENT: Final = struct.Struct("iIII")  # watch descriptor, mask, cookie, length of the name that follows
_READ_BYTES: Final = 1 << 16
LIBC: Final = ctypes.CDLL(None)
_ioctl: Final = ctypes.PyDLL(None, use_errno=True).ioctl  # keeps the interpreter's lock (`short_calls`)
_ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)


class Readable:
    """The number of bytes that a descriptor, such as inotify's, has to read. The memory of its answer is shared."""

    __slots__ = ("_answer", "_at")

    def __init__(self) -> None:
        self._answer = ctypes.c_int()
        self._at = ctypes.addressof(self._answer)

    def count(self, fd: int) -> int:
        """Return the number of bytes to read. If several threads ask, it may be the number of a moment after this call
        began. Raises OSError.
        """
        if _ioctl(fd, termios.FIONREAD, self._at) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return self._answer.value


class Watch:
    """The watch of one file. `is_clear` is True until an event was seen, and False from then on."""

    __slots__ = ("_owner", "descriptor", "is_clear")

    def __init__(self, owner: "FileWatches", descriptor: int) -> None:
        self._owner = owner
        self.descriptor = descriptor
        self.is_clear = True

    def look(self) -> bool:
        """Look for events; True if there was none."""
        return self._owner.look(self)

    def end(self) -> None:
        """Stop watching."""
        self._owner.remove(self)


class FileWatches:
    """All watches of a store. Thread-safe. Uses no descriptor before the first `add`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: dict[int, list[Watch]] = {}
        self._fd: int | None = None
        self._is_usable = True
        self._is_draining = False  # events were read whose watches are not marked yet
        self._readable = Readable()

    def add(self, fd: int) -> Watch | None:
        """Watch the file of an open descriptor. None where there is no inotify, or its limits are reached."""
        with self._lock:
            own = self._opened()
            descriptor = -1 if own is None else LIBC.inotify_add_watch(own, b"/proc/self/fd/%d" % fd, _EVENTS)
            if descriptor < 0:
                return None
            watch = Watch(self, descriptor)
            self._watches.setdefault(descriptor, []).append(watch)
            return watch

    def _opened(self) -> int | None:
        if self._fd is None and self._is_usable:
            init = getattr(LIBC, "inotify_init1", None)
            fd = -1 if init is None else init(os.O_NONBLOCK | os.O_CLOEXEC)
            self._is_usable = fd >= 0
            self._fd = fd if fd >= 0 else None
        return self._fd

    def look(self, watch: Watch) -> bool:
        """See `Watch.look`."""
        fd = self._fd
        # Whether another thread drains is checked last: it may have read the events before the first check.
        if fd is None or self._readable.count(fd) or self._is_draining:
            self._drain()
        return watch.is_clear

    def _drain(self) -> None:
        with self._lock:
            self._is_draining = True
            try:
                for descriptor, mask in self._events():
                    if mask & _OVERFLOW:
                        for each in list(self._watches):
                            self._doubt(each)
                    else:
                        self._doubt(descriptor)
            finally:
                self._is_draining = False

    def _events(self) -> Iterator[tuple[int, int]]:
        while self._fd is not None:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                descriptor, mask, _, name_bytes = EVENT.unpack_from(data, at)
                yield descriptor, mask
                at += EVENT.size + name_bytes

    def _doubt(self, descriptor: int) -> None:
        """Mark the watches of a file, and get no more of its events. It may have no watches any more."""
        for watch in self._watches.pop(descriptor, ()):
            watch.is_clear = False
        self._forget(descriptor)

    def remove(self, watch: Watch) -> None:
        """See `Watch.end`."""
        with self._lock:
            watch.is_clear = False
            same = self._watches.get(watch.descriptor, [])
            if watch in same:
                same.remove(watch)
                if not same:
                    del self._watches[watch.descriptor]
                    self._forget(watch.descriptor)

    def _forget(self, descriptor: int) -> None:
        if self._fd is not None:
            LIBC.inotify_rm_watch(self._fd, descriptor)  # fails if the kernel has removed it with the file

    def close(self) -> None:
        """End all watches."""
        with self._lock:
            self._is_usable = False
            for same in self._watches.values():
                for watch in same:
                    watch.is_clear = False
            self._watches.clear()
            fd, self._fd = self._fd, None
            if fd is not None:
                with suppress(OSError):
                    os.close(fd)
