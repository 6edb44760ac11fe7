"""Waiting for logs to grow: one watcher may watch many logs and wakes when any of them has news."""

import trio


class Watcher:
    """One waiting Fetch. Watch, look, and only then wait: news that came in between is not missed."""

    __slots__ = ("_event", "_news")

    def __init__(self) -> None:
        self._news = False
        self._event: trio.Event | None = None
        """Made only to wait: most fetches find enough and never do."""

    def wake(self) -> None:
        """There is news."""
        self._news = True
        if self._event is not None:
            self._event.set()

    async def wait(self, timeout_ms: int) -> bool:
        """Wait for news for at most `timeout_ms`; return whether there was any, and be ready for the next."""
        if self._news:
            await trio.lowlevel.checkpoint()
        else:
            self._event = trio.Event()
            with trio.move_on_after(timeout_ms / 1000):
                await self._event.wait()
            self._event = None
        news, self._news = self._news, False
        return news


class Watchable:
    """Something that watchers watch."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        # A dict, not a set: watchers wake in the order they came, in every run of a simulation.
        self._watchers: dict[Watcher, None] = {}

    def watch(self, watcher: Watcher) -> None:
        """Wake `watcher` at every `notify` until it is unwatched."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Forget `watcher`."""
        self._watchers.pop(watcher, None)

    def notify(self) -> None:
        """Wake everyone who watches."""
        for watcher in self._watchers:
            watcher.wake()
