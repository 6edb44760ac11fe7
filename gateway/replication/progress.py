"""Waits until an offset of a log is reached: durable here, or committed."""

from odradek.gateway.env.completion import Completion


class OffsetWaits:
    """The completions of offsets that are not reached yet: `waiting`, in the order of the offsets.

    Offsets are mostly awaited in rising order, as they are assigned.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # A list, not a deque: it is short, and a deque takes half a kilobyte, in each of thousands of logs.
        self.waiting: list[tuple[int, Completion[None]]] = []

    def until(self, offset: int) -> Completion[None]:
        """A completion for `offset`, which is not reached; that of the next later offset if one is already awaited."""
        waiting = self.waiting
        if waiting and waiting[-1][0] >= offset:
            return next(reached for awaited, reached in waiting if awaited >= offset)
        reached: Completion[None] = Completion()
        waiting.append((offset, reached))
        return reached

    def reach(self, offset: int) -> None:
        """Settle the completions for `offset` and earlier ones, in the order of the offsets."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= offset:
            waiting.pop(0)[1].settle(None)

    def fail_first(self, error: Exception) -> None:
        """Fail the completion for the lowest offset."""
        self.waiting.pop(0)[1].fail(error)

    def fail(self, error: Exception) -> None:
        """Fail all completions."""
        waiting, self.waiting = self.waiting, []
        defect: Exception | None = None
        for _, reached in waiting:
            try:
                reached.fail(error)
            except Exception as raised:  # noqa: BLE001 - raised below, when the other completions have failed, too
                defect = defect or raised
        if defect is not None:
            raise defect
