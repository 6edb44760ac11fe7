"""Requests of the kit to a broker in this process: they take the way of clients' requests, but no connection.

So they need no listener without encryption, no user and no quota. They meet no scripted fault, because of their client
id. A request and its response are encoded as on the wire: the kit sees what a client would.
"""

from typing import Final, NamedTuple, Protocol, TypeVar, cast

import trio

from odradek.gateway.assembly import Services
from odradek.gateway.env.completion import Completion
from odradek.gateway.env.signals import Signal
from odradek.gateway.server.dispatch import Dispatcher
from odradek.gateway.server.session import Session
from odradek.gateway.testing.asking import CLIENT_ID
from odradek.wire.api_keys import ADVERTISED
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

ANY_NODE: Final = -1
PAUSE_S: Final = 0.02
LOOK_AGAIN_S: Final = 1.0


class ProducerId(NamedTuple):
    """The identity of an idempotent producer."""

    id: int
    epoch: int


NO_PRODUCER: Final = ProducerId(-1, -1)


class Access(Protocol):
    """Sends requests to one broker, or to the brokers of a cluster. `trouble` is the error that is being retried.

    `learns_late`: a broker may not know yet what another one has decided.
    """

    trouble: str
    learns_late: bool

    async def ask(self, request: Message, kind: type[M], version: int, node: int = ANY_NODE) -> M:
        """The response of the broker `node`. Raises UnreachableError. Cancellation abandons the request."""
        ...

    async def producer(self) -> ProducerId:
        """A new identity if requests may be lost and repeated; `NO_PRODUCER` if they are always answered."""
        ...

    async def pause(self) -> None:
        """Return when it is time to try again after a temporary error."""
        ...

    async def change(self) -> None:
        """Return when the metadata may have changed."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, on the broker's clock if it is in this process."""
        ...


class LocalAccess:
    """Requests to the broker of `services`, on its Trio thread."""

    learns_late = False

    def __init__(self, services: Services) -> None:
        self.trouble = ""
        self.services = services
        self._dispatcher = Dispatcher(services, ADVERTISED)  # all of them, whatever release it emulates
        self._session = Session(CLIENT_ID, "127.0.0.1", next(iter(services.advertised)))

    async def ask(self, request: Message, kind: type[M], version: int, node: int = ANY_NODE) -> M:
        """See `Access.ask`; there is one broker, which always answers."""
        del kind, node
        frame = memoryview(encode_request(request, version, 0, CLIENT_ID))[4:]
        ctx, decoded, route = self._dispatcher.open(frame, self._session)
        try:
            response: Message | Completion[Message] = await route.handle(ctx, decoded)
            if isinstance(response, Completion):
                response = await response.wait()
            reply = b"".join(ctx.encode(response))
        finally:
            ctx.finish()
        # No isinstance: pytest's own `pytester` forgets modules that a session imports first, and makes the class anew.
        return cast("M", decode_response(ctx.api_key, version, memoryview(reply)[4:])[1])

    async def producer(self) -> ProducerId:
        """See `Access.producer`."""
        return NO_PRODUCER

    async def pause(self) -> None:
        """See `Access.pause`."""
        await trio.sleep(PAUSE_S)

    async def change(self) -> None:
        """See `Access.change`."""
        changed, changes = Signal(), self.services.metadata.changes
        changes.watch(changed)
        try:
            with trio.move_on_after(LOOK_AGAIN_S):  # it may have changed since the caller looked
                await changed.wait()
        finally:
            changes.unwatch(changed)

    def wall_ms(self) -> int:
        """See `Access.wall_ms`."""
        return self.services.env.wall_ms()
