"""What the ways of writing share: what was done, and a thread that writes while the next batches are made."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Written:
    """What one task has done to its partition.

    `records` are written, `filled` offsets are without a record in the table, `present` rows were in the topic already.
    `met_others_at` are ends of the log where something else had written what was to be written: an earlier run, or
    another client, which the driver finds out.
    """

    records: int = 0
    filled: int = 0
    present: int = 0
    met_others_at: list[int] = field(default_factory=list[int])


class Ahead(Generic[T]):
    """Calls `write` in a thread, in order, one at a time; at most one item waits. At the end of the block all is done.

    `put` raises what an earlier `write` has raised.
    """

    def __init__(self, write: Callable[[T], None]) -> None:
        self._write = write
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="odradek-restore")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def put(self, item: T) -> None:
        """Write the item when the one before is written."""
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
