"""The interface of a backend under test: a medium on which a store can be opened, closed and reopened."""

from collections.abc import Callable
from typing import Protocol

from odradek.storage_backends.interface import Store


class StoreMedium(Protocol):
    """The place where a store keeps its data (a directory, a database), initially empty."""

    def open(self) -> Store:
        """Open the store, as a starting process does. A store opened before is closed."""
        ...

    def destroy(self) -> None:
        """Remove everything; the store is closed."""
        ...


StoreFactory = Callable[[], StoreMedium]
"""Creates a new, empty medium at each call."""
