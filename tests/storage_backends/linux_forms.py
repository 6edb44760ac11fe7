"""Marks of tests that are about a form which only Linux has, or POSIX systems: skipped where the portable one runs."""

import pytest

from odradek.facilities import has
from odradek.storage_backends.lmdb_segments.reader_table import MOVES_OPEN_FILES
from odradek.storage_backends.system import boot_id

pages_are_lent = pytest.mark.skipif(
    not MOVES_OPEN_FILES, reason="readers get copies where a segment has to be closed before it is renamed"
)
table_in_memory = pytest.mark.skipif(not MOVES_OPEN_FILES, reason="LMDB's lock file stays while a segment is open")
boot_is_known = pytest.mark.skipif(not boot_id(), reason="every unclean end counts as a crash of the system")
directories_are_locked = pytest.mark.skipif(not has("fcntl"), reason="only the lock file is locked")
libc_is_called = pytest.mark.skipif(not has("libc"), reason="no function of the C library is called")
waits_by_poll = pytest.mark.skipif(not has("poll"), reason="select takes no descriptor above 1023")
