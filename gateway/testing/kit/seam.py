"""What the dispatcher of a test's broker calls for each decoded request. It imports nothing until there are faults."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from odradek.gateway.testing.kit.interception import Interception

MOST_CLIENTS: Final = 10_000


class Seam:
    """Notes the clients of connections, and asks `interception` for the routes of requests once there is one.

    `clients` has the client id of the last request by the peer of its connection, of the last ten thousand connections.
    """

    def __init__(self) -> None:
        self.clients: dict[str, str] = {}
        self.interception: Interception | None = None

    def __call__(self, ctx: Any, request: Any, route: Any) -> Any:  # noqa: ANN401 - the server's types, unimported
        """The route of a request (`Services.intercept`)."""
        clients = self.clients
        clients[ctx.session.peer] = ctx.client_id or ""
        if len(clients) > MOST_CLIENTS:
            del clients[next(iter(clients))]
        return route if self.interception is None else self.interception(ctx, request, route)
