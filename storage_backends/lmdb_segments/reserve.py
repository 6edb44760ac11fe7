"""Space that is kept for commits on a full disk that lead to more space, or may do so: those that remove segments, and
those of the metadata log, by which a topic is deleted or its retention shortened.

Such a commit needs a few pages itself, and the disk may have none. So the store has a file of allocated blocks. A
commit that fails for lack of space frees one part of it after the other, until it succeeds. What was freed is allocated
again when files have been removed, when idle files are closed, and at the start. Writers of other logs may take a freed
part first; that is why it is freed in parts. The second half is only for commits that remove segments.

Without `fallocate` in the operating or file system, zeros are written to each block instead, which reserves nothing
where blocks of zeros are not stored.
"""

import logging
import os
from pathlib import Path
from threading import Lock
from typing import Final

from odradek.storage_backends.system import allocate

_logger = logging.getLogger(__name__)

RESERVE_BYTES: Final = 1 << 20
PART_BYTES: Final = 1 << 16


class SpaceReserve:
    """The file at `path`, which `restore` creates. May be used from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size_bytes = 0
        self._mutex = Lock()

    def give_up(self, kept_bytes: int) -> bool:
        """Free a part of the file's space; return False, and change nothing, if less than `kept_bytes` would remain."""
        with self._mutex:
            size_bytes = self._size_bytes - PART_BYTES
            if size_bytes < kept_bytes:
                return False
            try:
                os.truncate(self._path, size_bytes)
            except OSError:
                return False
            self._size_bytes = size_bytes
            return True

    def restore(self) -> None:
        """Allocate what is missing, as far as there is space. Never raises."""
        if self._size_bytes == RESERVE_BYTES:
            return
        with self._mutex:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    self._allocate(fd)
                finally:
                    os.close(fd)
            except OSError as error:
                _logger.debug("no reserve for a full disk path=%s cause=%s", self._path, error)

    def _allocate(self, fd: int) -> None:
        """Allocate part by part. A part of a file found at the start is allocated again: it may be a hole in a copy."""
        try:
            while self._size_bytes < RESERVE_BYTES:
                allocate(fd, self._size_bytes, PART_BYTES)
                self._size_bytes += PART_BYTES
        except OSError:
            os.ftruncate(fd, self._size_bytes)
            raise
