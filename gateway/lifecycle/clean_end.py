"""Whether the incarnation of this broker before has ended in order: its epoch is then a property of the store."""

import logging
from functools import partial
from typing import Final

from odradek.gateway.env.environment import Environment
from odradek.storage_backends.interface import Store, StoreError

log = logging.getLogger(__name__)

PROPERTY: Final = "broker.epoch"
NO_EPOCH: Final = -1


class CleanEnd:
    """The mark of a clean end in one store."""

    def __init__(self, store: Store, env: Environment) -> None:
        self._store = store
        self._env = env

    async def take(self) -> int:
        """The epoch of an incarnation that has ended in order, -1 where it has not; the mark is gone when it returns.

        A mark that cannot be taken away counts for nothing: it would outlive what it says. Raises StoreError when the
        store cannot be read.
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
        """Note that the broker of `epoch` has closed all its logs. A store that refuses it is not marked."""
        try:
            await self._env.run_blocking(partial(self._store.set_properties, {PROPERTY: str(epoch)}))
        except StoreError as error:
            log.warning("cannot mark the clean end cause=%s", error)
