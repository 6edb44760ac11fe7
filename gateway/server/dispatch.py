"""Decodes a frame and finds its handler: the served versions, the handlers, and replies to unsupported versions.

Kafka answers an unknown key or version by closing the connection, with one exception: ApiVersions of an unknown version
is answered in body version 0 with error 35 (KIP-511), so that a newer client can retry with a lower version.

A handler is `handle(ctx, request) -> response` in the module of `gateway/handlers/` that has the API's name, beside
`REQUEST`, the message type it handles. A *deferred* handler returns a `Completion` of the response instead, or of None
for no response. If it is also *pipelined*, the request's order is fixed when the handler returns, and the connection
may begin the next request if that is pipelined, too.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from importlib import import_module
from typing import Any, Final

from odradek.gateway.assembly import Services
from odradek.gateway.errors import PeerError
from odradek.gateway.server.context import RequestContext
from odradek.gateway.server.session import Session
from odradek.wire.api_keys import ADVERTISED, CONTROLLER_ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.headers import read_request_header
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.schema.codec import Decoder, decoder
from odradek.wire.schema.schema import Message
from odradek.wire.values import immutable

Handler = Callable[[RequestContext, Any], Awaitable[Any]]

PIPELINED: Final = frozenset({ApiKey.PRODUCE})
"""While one of these requests waits for its commit, the next of them on the same connection may begin."""

DEFERRED: Final = PIPELINED | {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DELETE_RECORDS, ApiKey.IMPORT_BATCHES}
"""Requests whose handlers return a `Completion`."""

WAITS_FOR_OTHERS: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.DELETE_RECORDS})
"""Requests that may wait for a request of another client or broker. Their bytes do not count once they are decoded.

Otherwise they could keep the broker from reading the request that they wait for.
"""

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""Requests of clients that the active controller answers; any other broker forwards them (KIP-590)."""

NAMES_SERVED_VERSIONS: Final = 3
"""From this version of ApiVersions on, a broker that refuses a newer one says which it serves."""

LARGE_FRAME_BYTES: Final = 128 * 1024
"""Decoding a longer request would delay other connections, unless it consists of record batches."""


@immutable
class Route:
    """How requests of one API are handled.

    `is_pipelined`: the next request may begin before this one is answered, if both are pipelined. `is_deferred`: the
    handler returns a `Completion` of the response. `keeps_memory`: the request's bytes count until its reply is sent,
    or until the handler has returned a `Completion`: that may wait for other brokers, which must be read meanwhile.
    """

    request_type: type[Message]
    handle: Handler
    versions: tuple[int, int]
    is_pipelined: bool
    is_deferred: bool
    keeps_memory: bool
    decoders: dict[int, Decoder[Any]] = field(default_factory=dict[int, Decoder[Any]])
    """Decoders by version, as far as they were needed."""

    def decoder(self, version: int) -> Decoder[Any]:
        """The decoder of requests of `version`, which is cached."""
        found = self.decoders[version] = decoder(self.request_type, version)
        return found


Call = tuple[RequestContext, Any, Route]
"""One decoded request: its context, the message, and its route. A tuple, because each request makes one."""


class Dispatcher:
    """Decodes requests and finds their handlers (imported at first use, to start quickly).

    Listeners for controllers have a separate table, so that clients' listeners do not serve controllers' requests.
    `served` replaces the versions that clients are offered.
    """

    def __init__(self, services: Services, served: Mapping[ApiKey, tuple[int, int]] | None = None) -> None:
        self._services = services
        self._served = services.served if served is None else served
        self._now_us = services.request_times.now_us
        self._routes: dict[ApiKey, Route] = {}
        self._controller_routes: dict[ApiKey, Route] = {}

    def open(self, frame: memoryview, session: Session) -> Call:
        """Decode one frame. Raises PeerError for requests to which Kafka responds by closing the connection.

        Called on the Trio thread, and in worker threads for large frames.
        """
        try:
            api_key, api_version, correlation_id, client_id, _, body_at = read_request_header(frame)
        except ProtocolError as error:
            raise PeerError(str(error)) from error
        ctx = RequestContext(api_key, api_version, correlation_id, client_id, session, self._services, self._now_us())
        routes = self._controller_routes if session.is_controller else self._routes
        route = routes.get(api_key) or self._load(api_key, is_controller=session.is_controller)
        if route is None or not route.versions[0] <= api_version <= route.versions[1]:
            return _unsupported(ctx)
        try:
            # Bytes after the request are ignored, as in Kafka: librdkafka 2.16 sends some with Metadata.
            decode = route.decoders.get(api_version) or route.decoder(api_version)
            request, _ = decode(frame, body_at)
        except ProtocolError as error:
            raise PeerError(f"malformed {api_key.name} v{api_version}: {error}") from error
        intercept = self._services.intercept
        if intercept is not None:
            route = intercept(ctx, request, route)
        return ctx, request, route

    @staticmethod
    def is_large(frame: memoryview) -> bool:
        """True if the frame should be decoded, and its response encoded, in a worker thread."""
        return len(frame) > LARGE_FRAME_BYTES and int.from_bytes(frame[:2], "big") not in PIPELINED

    def _load(self, api_key: ApiKey, *, is_controller: bool) -> Route | None:
        """Import the handler; None for an API that the listener does not serve."""
        table, routes = (
            (CONTROLLER_ADVERTISED, self._controller_routes) if is_controller else (self._served, self._routes)
        )
        versions = table.get(api_key)
        if versions is None:
            return None
        module = import_module(f"odradek.gateway.handlers.{api_key.name.lower()}")
        handle = module.handle
        if api_key in FORWARDED and not is_controller:
            handle = _forwarding(handle)
        route = routes[api_key] = Route(
            module.REQUEST,
            handle,
            versions,
            is_pipelined=api_key in PIPELINED,
            is_deferred=api_key in DEFERRED,
            keeps_memory=api_key not in WAITS_FOR_OTHERS,
        )
        return route


def _forwarding(handle: Handler) -> Handler:
    """A handler that forwards to the active controller; `handle` answers if that is this node or unreachable."""

    async def forward(ctx: RequestContext, request: Message) -> Message:
        services = ctx.services
        if services.leadership.is_active:
            return await handle(ctx, request)
        host = packed_address(ctx.session.peer_host)
        response = await services.forwarder.forward(
            ctx.api_key, ctx.api_version, ctx.correlation_id, ctx.client_id, host, request
        )
        return await handle(ctx, request) if response is None else response

    return forward


def packed_address(host: str) -> bytes:
    """An address as an Envelope contains it, in 4 or 16 bytes; 127.0.0.1 for a host name."""
    from ipaddress import ip_address

    try:
        return ip_address(host).packed
    except ValueError:
        return ip_address("127.0.0.1").packed


def _unsupported(ctx: RequestContext) -> Call:
    """The error reply to an unsupported version of ApiVersions, with the supported ones. PeerError for other APIs."""
    if ctx.api_key is not ApiKey.API_VERSIONS:
        raise PeerError(f"{ctx.api_key.name} v{ctx.api_version} is not served")
    ctx.api_version = 0
    return ctx, None, _UNSUPPORTED_VERSION


async def _refuse_version(ctx: RequestContext, _request: None) -> ApiVersionsResponse:
    low, high = ctx.services.served[ApiKey.API_VERSIONS]
    known = (ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high),)
    names_them = high >= NAMES_SERVED_VERSIONS  # KIP-511; an emulated release may be older
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known if names_them else ())


_UNSUPPORTED_VERSION: Final = Route(
    ApiVersionsRequest,
    _refuse_version,
    ADVERTISED[ApiKey.API_VERSIONS],
    is_pipelined=False,
    is_deferred=False,
    keeps_memory=True,
)
