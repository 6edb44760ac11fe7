"""Settings of glibc's malloc: request buffers reuse freed memory, while LMDB environments get fresh memory.

Getting a buffer of a megabyte from the operating system takes longer than filling it, because of a page fault for each
4 KB. Over a database each such batch is copied by the broker, by the driver and by the database. So freed memory is
kept, enough for these buffers.

LMDB allocates a list of 1 MB and a zeroed one of 2 MB for each environment, and uses a few bytes of them. Memory from
the operating system is not touched, and so costs nothing; but once blocks of that size have been freed, glibc reuses
and clears them, and then every further environment takes up to 3 MB of real memory: gigabytes for a thousand
partitions. With a fixed limit just below those sizes, above which glibc always allocates from the system, an
environment takes about 20 KB. With that limit fixed glibc would return freed memory at once, so the amount that it
keeps is fixed too: enough for receive buffers. It would keep that amount for each thread that commits, so all threads
share one arena; allocations are short, so they hardly wait for each other.
"""

import ctypes

from odradek.facilities import has

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 24 * 1024 * 1024
_FROM_SYSTEM_BYTES = (2**17 + 1) * 8  # the smaller of LMDB's lists


def keep_buffers() -> bool:
    """Set the limits for this process; return False if the C library has no such settings (musl, macOS and Windows
    need none).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if has("libc") else None
    if mallopt is None:
        return False
    limits = ((_M_MMAP_THRESHOLD, _FROM_SYSTEM_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES), (_M_ARENA_MAX, 1))
    return all(mallopt(name, value) for name, value in limits)
