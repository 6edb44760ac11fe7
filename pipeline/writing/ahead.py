"""A thread that writes while the next batches are encoded."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Calls `write` in a thread, in order, one at a time, while the caller prepares the next item.

    The end of the block waits for the last `write`. `put` and the end of the block raise the exception of the previous
    `write`; after an exception in the block that one is dropped. `put` is for one thread.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        self._write = write
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="odradek-writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def put(self, item: T) -> None:
        """Start to write the item, after waiting until the previous one is written."""
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
