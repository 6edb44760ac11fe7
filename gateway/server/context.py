"""The request that a handler answers, with its connection and the broker's services."""

from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeVar

import trio

from odradek.coordinator.groups.decision import ClientInfo
from odradek.gateway.assembly import Services
from odradek.gateway.errors import RequestRefusedError
from odradek.gateway.server.session import Session
from odradek.partitions.results import Isolation
from odradek.wire.api_keys import ApiKey
from odradek.wire.headers import encode_response_parts
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import Buffer
from odradek.wire.values import mutable

R = TypeVar("R")

TURN_EVERY: Final = 500
"""The number of requested items that are handled before other tasks are scheduled; some milliseconds of work."""

LEVELS = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
"""The isolation levels that a client may request, by number."""


@mutable
class RequestContext:
    """One request while it is handled.

    `began_us` is when it was decoded, on the clock of `services.request_times`, and `kind` the name under which it is
    also counted there. `on_sent` has calls that release resources once the reply is sent or dropped, such as leases on
    store pages.
    """

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    session: Session
    services: Services
    began_us: int
    on_sent: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    kind: str = ""
    _handled: int = 0
    _turn_due: int = TURN_EVERY

    @staticmethod
    def isolation(level: int) -> Isolation:
        """The isolation level that a client requests. Raises RequestRefusedError for an invalid number."""
        if not 0 <= level < len(LEVELS):
            raise RequestRefusedError(f"there is no isolation level {level}")
        return LEVELS[level]

    @staticmethod
    async def checkpoint() -> None:
        """Let other tasks run: for loops over items of which a client may send a million."""
        await trio.lowlevel.checkpoint()

    @property
    def answers_many(self) -> bool:
        """True if the response has so many items that encoding it takes long, too."""
        return self._handled >= TURN_EVERY

    def will_answer(self, count: int) -> None:
        """Count `count` items of the response beyond one per requested item."""
        self._handled += count

    def is_turn_over(self) -> bool:
        """Count one item; True after every `TURN_EVERY` items, when other tasks must run."""
        self._handled += 1
        if self._handled < self._turn_due:
            return False
        self._turn_due = self._handled + TURN_EVERY
        return True

    async def take_turns(self) -> None:
        """Count one item, and yield to other tasks when `is_turn_over`."""
        if self.is_turn_over():
            await self.checkpoint()

    async def built(self, make: Callable[[], R]) -> R:
        """The result of `make`, run in a worker thread if the response is large (`answers_many`)."""
        return await self.services.env.run_blocking(make) if self.answers_many else make()

    def client_info(self, *, joins: bool = False) -> ClientInfo:
        """The client as coordinators need it, with a new member id if the request `joins` a group."""
        new_member_id = str(self.services.env.uuid()) if joins else ""
        return ClientInfo(self.api_version, self.client_id or "", self.session.client_host, new_member_id)

    def encode(self, response: Message) -> list[Buffer]:
        """The response to this request as the parts of one frame, its length prefix first."""
        return encode_response_parts(response, self.api_version, self.correlation_id)

    def finish(self) -> None:
        """Release the resources that the reply used."""
        for give_back in self.on_sent:
            give_back()
        self.on_sent.clear()
