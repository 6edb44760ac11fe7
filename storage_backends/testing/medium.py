"""What the suite asks of a backend under test: something that can be opened, closed and opened again."""

from collections.abc import Callable
from typing import Protocol

from odradek.storage_backends.interface import Store


class StoreMedium(Protocol):
    """Where a store keeps its data (a directory, a database), empty at first."""

    def open(self) -> Store:
        """Open the store, as a process does that starts. The one before is closed."""
        ...

    def destroy(self) -> None:
        """Remove everything; the store is closed."""
        ...


StoreFactory = Callable[[], StoreMedium]
"""Makes a new, empty medium each time it is called."""
