"""Runs blocking calls beside the caller's event loop, trio's or asyncio's."""

from collections.abc import Callable
from typing import TypeVar

import sniffio

T = TypeVar("T")


async def in_thread(call: Callable[[], T], *, abandons: bool = True) -> T:
    """Run `call` in a worker thread, and return its result.

    A caller that is cancelled leaves the thread to end by itself; under Trio it waits for it unless it `abandons` it.
    """
    if sniffio.current_async_library() == "trio":
        import trio

        return await trio.to_thread.run_sync(call, abandon_on_cancel=abandons)
    import asyncio  # noqa: TID251 - the caller's loop, not ours

    return await asyncio.to_thread(call)
