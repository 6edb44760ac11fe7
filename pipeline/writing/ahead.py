"""A thread that writes while the next batches are encoded."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Calls `write` in a thread, in order, one at a time; at most one item waits. The block's end waits for all.

    `put` raises the exception of an earlier `write`.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        self._write = write
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="odradek-writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def put(self, item: T) -> None:
        """Write the item after the previous one; waits while another item is queued."""
        self._settle()
        self._last = self._pool.submit(self._write, item)

    def _settle(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._settle()
        finally:
            self._pool.shutdown()
