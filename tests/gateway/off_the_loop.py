"""A store that raises if a call that may wait for a disk comes from a Trio thread.

Methods that never wait, according to `storage_backends.interface`, may be called from any thread; all others belong in
a worker thread.
"""

from collections.abc import Callable
from typing import Any, Final

import trio

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import LogPolicy, Store

STORE_MAY_WAIT: Final = frozenset(
    {
        "partitions",
        "holds",
        "open",
        "delete",
        "set_aside",
        "strays",
        "take_back",
        "delete_stray",
        "space",
        "properties",
        "set_properties",
        "close",
    }
)
PARTITION_MAY_WAIT: Final = frozenset(
    {
        "load",
        "commit",
        "find_by_timestamp",
        "find_max_timestamp",
        "truncate",
        "draft",
        "replace",
        "size_bytes",
        "close",
    }
)


class CalledOnTheLoopError(AssertionError):
    """A call that may wait for a disk came from the Trio thread."""


class _Checked:
    """Delegates to `inner`, and first checks the calling thread for the methods in `may_wait`."""

    def __init__(self, inner: Any, may_wait: frozenset[str]) -> None:
        self._inner = inner
        self._may_wait = may_wait

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _off_the_loop(name, found) if name in self._may_wait else found


class OffTheLoopPartition(_Checked):
    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Any:
        if not self._inner.is_hot(start_offset):
            _check("a read that is not hot")
        return self._inner.read(start_offset, end_offset, max_bytes)


class OffTheLoopStore(_Checked):
    def __init__(self, inner: Store) -> None:
        super().__init__(inner, STORE_MAY_WAIT)

    def open(self, key: PartitionKey, policy: LogPolicy) -> Any:
        _check("open")
        return OffTheLoopPartition(self._inner.open(key, policy), PARTITION_MAY_WAIT)


def _off_the_loop(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, **named: Any) -> Any:
        _check(name)
        return call(*args, **named)

    return checked


def _check(what: str) -> None:
    if trio.lowlevel.in_trio_run():
        raise CalledOnTheLoopError(f"{what} was called on the event loop")
