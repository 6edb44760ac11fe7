"""A result that comes later: of a commit, of a coordinator's operation, of a request.

All later results use this class. A task can wait for a completion, or a callback is called when it is settled. A
callback needs no task switch: when a large group's generation begins, a hundred replies are sent in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

import trio

T = TypeVar("T")
U = TypeVar("U")

_NO_CALLBACKS: Final[list[Callable[[Completion[Any]], None]]] = []
"""The callbacks of every settled completion: a shared list that stays empty."""


class Completion(Generic[T]):
    """A value that comes later, or an error instead of it; settled once, on the Trio thread."""

    __slots__ = ("_callbacks", "_value", "error", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.error: Exception | None = None
        self._value: Any = None
        self._callbacks: list[Callable[[Completion[T]], None]] = []

    def settle(self, value: T) -> None:
        """Set the value, and call the callbacks in the order in which they were added.

        When all have been called, raises the first exception that one of them raised; that is a defect.
        """
        assert not self.settled, "a completion is settled once"
        self.settled = True
        self._value = value
        self._call_back()

    def fail(self, error: Exception) -> None:
        """Set an error instead of a value. Raises as `settle` does."""
        assert not self.settled, "a completion is settled once"
        self.settled = True
        self.error = error
        self._call_back()

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, _NO_CALLBACKS
        defect: Exception | None = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:  # noqa: BLE001 - raised below: the others wait for this, too
                defect = defect or error
        if defect is not None:
            raise defect

    def on_settled(self, callback: Callable[[Completion[T]], None]) -> None:
        """Call `callback` with this completion when it is settled, or at once if it already is. It must not raise."""
        if self.settled:
            callback(self)
        else:
            self._callbacks.append(callback)

    def result(self) -> T:
        """The value of a settled completion. Raises its error if it has failed."""
        assert self.settled
        if self.error is not None:
            raise self.error
        return self._value

    async def wait(self) -> T:
        """Wait for the value. Raises the error if it fails. Cancellation does not stop the awaited operation."""
        if not self.settled:
            event = trio.Event()
            self._callbacks.append(lambda _: event.set())
            await event.wait()
        return self.result()

    def then(self, convert: Callable[[Completion[T]], U]) -> Completion[U]:
        """The completion of `convert(self)`, which is called when this one is settled.

        Its exception becomes the error.
        """
        converted: Completion[U] = Completion()  # without [U] at run time, which takes ten times as long

        def settled(done: Completion[T]) -> None:
            try:
                value = convert(done)
            except Exception as error:  # noqa: BLE001 - raised where the result is taken
                converted.fail(error)
            else:
                converted.settle(value)

        self.on_settled(settled)
        return converted


def completed(value: T) -> Completion[T]:
    """A completion that is settled already."""
    done: Completion[T] = Completion()
    done.settle(value)
    return done


DONE: Final = completed(None)
"""A shared completion without a value that is settled already."""


class Gathered(Completion[T]):
    """The result of `make`, called when all of `parts` are settled (with a value or an error), or on `finish`.

    An exception of `make` becomes the error. It is one object without closures, since each Produce creates one.
    """

    __slots__ = ("_left", "_make")

    def __init__(self, parts: Collection[Completion[None]], make: Callable[[], T]) -> None:
        super().__init__()
        self._make = make
        self._left = len(parts)
        for part in parts:
            part.on_settled(self._note_settled)
        if not parts:
            self.finish()

    def _note_settled(self, _part: Completion[None]) -> None:
        self._left -= 1
        if not self._left:
            self.finish()

    def finish(self) -> None:
        """Settle now, even if some parts are open; no effect if it is already settled."""
        if self.settled:
            return
        make, self._make = self._make, _spent  # it refers to the request
        try:
            value = make()
        except Exception as error:  # noqa: BLE001 - raised where the result is taken
            self.fail(error)
        else:
            self.settle(value)


def _spent() -> Any:  # noqa: ANN401
    """Takes the place of what made a result."""
    raise AssertionError("a result is made once")
