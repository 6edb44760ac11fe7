"""A thread that waits for notifications on a connection of its own, and reconnects when it breaks."""

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ
from socket import socketpair
from threading import Event, Thread
from typing import Any, Final

from sqlalchemy import Connection, text

from odradek.facilities import has
from odradek.storage_backends.sql.database import Database
from odradek.storage_backends.sql.errors import ForeignError
from odradek.storage_backends.sql.outbox.functions import CHANNEL

if sys.platform != "win32" and has("poll"):
    from selectors import PollSelector as Selector
else:  # on Windows its `select` takes any socket, elsewhere none above 1023
    from selectors import SelectSelector as Selector

LOG: Final = logging.getLogger("odradek.storage")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
_SCHEMA: Final = text("SELECT current_schema()")
_LISTEN: Final = text(f"LISTEN {CHANNEL}")


class Listener:
    """Calls `wake` for each notification of this store's schema, and whenever some may have been lost."""

    def __init__(self, database: Database, wake: Callable[[], None]) -> None:
        self._database = database
        self._wake = wake
        self._stopped = Event()
        self._stop_read, self._stop_write = socketpair()  # Windows waits for sockets only
        self._is_away = False
        # Notifications require the driver, which SQLAlchemy does not wrap for this; imported here since stores in
        # SQLite run without it.
        from psycopg import Error  # noqa: PLC0415

        self._foreign = (*ForeignError, Error)
        self._thread = Thread(target=self._run, name="odradek-outbox", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; `wake` is not called afterwards."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._stop_write.send(b"\0")
        self._thread.join()
        self._stop_read.close()
        self._stop_write.close()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopped.is_set():
            try:
                connection = self._database.dedicated()
                try:
                    schema = self._begin(connection)
                    pause_s = FIRST_PAUSE_S
                    self._wait(connection, schema)
                finally:
                    with suppress(*ForeignError):
                        connection.invalidate()  # a pool would pass the listening connection to other users
                        connection.close()
            except self._foreign as error:
                if not self._is_away:
                    LOG.warning("no notifications of the outbox, it is looked at now and then: %s", error)
                self._is_away = True
                self._stopped.wait(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _begin(self, connection: Connection) -> str:
        """Start to listen; return the store's schema."""
        schema = connection.execute(_SCHEMA).scalar_one()
        connection.execute(_LISTEN)
        if self._is_away:
            LOG.info("notifications of the outbox come again")
        self._is_away = False
        self._wake()
        return schema

    def _wait(self, connection: Connection, schema: str) -> None:
        driver: Any = connection.connection.driver_connection
        wire = driver.pgconn  # psycopg's generator of notifications cannot be stopped
        wanted = schema.encode()
        with Selector() as readable:
            server = readable.register(wire.socket, EVENT_READ)
            readable.register(self._stop_read, EVENT_READ)
            while not self._stopped.is_set():
                if server in [key for key, _ in readable.select()]:
                    wire.consume_input()
                    if wanted in [each.extra for each in iter(wire.notifies, None)]:
                        self._wake()
