"""How glibc keeps memory: buffers of a request come out of memory that was used before, an LMDB environment does not.

A buffer of a megabyte that comes fresh from the operating system costs more than to fill it: a page fault for each
4 KB. Over a database each such batch is copied by the broker, by the driver and by the database. So as much freed
memory is kept as these buffers take.

LMDB asks for a list of 1 MB and a zeroed one of 2 MB for each environment, and uses some bytes of them. Fresh from the
operating system that costs nothing; but glibc, once blocks of that size have been freed, hands out used memory and
clears it, and then every further environment takes up to 3 MB of real memory: gigabytes for a thousand partitions. A
fixed limit, just below those sizes, from which on glibc asks the system each time, keeps it at about 20 KB. With that
limit fixed glibc would give freed memory back at every chance, so how much it keeps is fixed too: enough that receive
buffers come out of it. And it would keep as much again for each thread that commits, so all share one arena; none
allocates for long.
"""

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 24 * 1024 * 1024
_FROM_SYSTEM_BYTES = (2**17 + 1) * 8  # the smaller of LMDB's lists


def keep_buffers() -> bool:
    """Set the limits for this process; False where the C library has no such settings (musl needs none)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    limits = ((_M_MMAP_THRESHOLD, _FROM_SYSTEM_BYTES), (_M_TRIM_THRESHOLD, _KEPT_BYTES), (_M_ARENA_MAX, 1))
    return all(mallopt(name, value) for name, value in limits)
