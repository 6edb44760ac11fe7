"""Stores whether this broker's previous shutdown was clean: its epoch is then a property of the store."""

import logging
from functools import partial
from typing import Final

from odradek.gateway.env.environment import Environment
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

PROPERTY: Final = "broker.epoch"
NO_EPOCH: Final = -1


class CleanEnd:
    """The clean-shutdown mark of one store."""

    def __init__(self, store: Store, env: Environment) -> None:
        self._store = store
        self._env = env

    async def take(self) -> int:
        """Return the epoch of the previous incarnation if its shutdown was clean, else -1; the mark is then removed.

        A mark that cannot be removed is ignored, because it would still be there after an unclean shutdown. Raises
        StoreError when the store cannot be read.
        """
        text = (await self._env.run_blocking(self._store.properties)).get(PROPERTY, "")
        if not text:
            return NO_EPOCH
        try:
            await self._env.run_blocking(partial(self._store.set_properties, {PROPERTY: ""}))
        except StoreError as error:
            log.warning("cannot take away the mark of a clean end, so it does not count cause=%s", error)
            return NO_EPOCH
        return int(text)

    async def put(self, epoch: int) -> None:
        """Mark that the broker of `epoch` has closed all its logs. If the write fails, the store stays unmarked."""
        try:
            await self._env.run_blocking(partial(self._store.set_properties, {PROPERTY: str(epoch)}))
        except StoreError as error:
            log.warning("cannot mark the clean end cause=%s", error)
