"""From a frame to a handler and back: which versions are served, who serves them, and what an error becomes.

Kafka answers an unknown key or version by closing the connection, with one exception: ApiVersions of an unknown version
is answered in body version 0 with error 35 (KIP-511), so that a newer client can try again with less.

A handler is `handle(ctx, request) -> response` in the module of `gateway/handlers/` that has the API's name, beside
`REQUEST`, the message it takes. A *deferred* one returns a `Completion` of the response instead, or of None
for none; if it is *pipelined*, too, the request has taken its place in the order of things when the handler
returns, and the connection may begin the next one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from odradek.gateway.assembly import Services
from odradek.gateway.errors import PeerError
from odradek.gateway.net.transport import Buffer, Transport
from odradek.gateway.server.context import RequestContext
from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.headers import decode_request_header, encode_response_parts
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.schema.codec import decode
from odradek.wire.schema.schema import Message

Handler = Callable[[RequestContext, Any], Awaitable[Any]]

PIPELINED: Final = frozenset({ApiKey.PRODUCE})
"""Requests whose successors on the same connection may begin while they wait for the disk."""

DEFERRED: Final = PIPELINED | {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
"""Requests whose handlers return a `Completion`."""

LARGE_FRAME_BYTES: Final = 128 * 1024
"""A longer request, unless it is of record batches, lists so much that decoding it would hold up everyone else."""


@dataclass(slots=True)
class Call:
    """One request, decoded, with who answers it. `canned` is an answer that needs no handler."""

    ctx: RequestContext
    request: Any
    handler: Handler | None
    canned: Any = None
    large: bool = False

    @property
    def pipelined(self) -> bool:
        """Whether the next request may begin before this one is answered."""
        return self.ctx.api_key in PIPELINED

    @property
    def deferred(self) -> bool:
        """Whether the handler returns a `Completion` of the response."""
        return self.ctx.api_key in DEFERRED


class Dispatcher:
    """Decodes requests, finds their handlers (imported at first use, to start quickly) and encodes responses."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers: dict[ApiKey, tuple[type[Message], Handler]] = {}

    def open(self, frame: memoryview, transport: Transport, listener: str) -> Call:
        """Decode one frame. Raises PeerError for what Kafka answers by closing the connection."""
        try:
            header, body_at = decode_request_header(frame)
        except ProtocolError as error:
            raise PeerError(str(error)) from error
        ctx = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            transport.peer,
            transport.peer_host,
            listener,
            self._services,
        )
        if not _is_served(header.api_key, header.api_version):
            return _unsupported(ctx)
        request_type, handler = self._handler(header.api_key)
        try:
            # Bytes after the request are let pass, as Kafka does: librdkafka 2.16 sends some with Metadata.
            request, _ = decode(request_type, header.api_version, frame, body_at)
        except ProtocolError as error:
            raise PeerError(f"malformed {header.api_key.name} v{header.api_version}: {error}") from error
        return Call(ctx, request, handler, large=self.is_large(frame))

    @staticmethod
    def is_large(frame: memoryview) -> bool:
        """Whether decoding the frame, and encoding its answer, belongs into a worker thread."""
        return len(frame) > LARGE_FRAME_BYTES and int.from_bytes(frame[:2], "big") not in PIPELINED

    def _handler(self, api_key: ApiKey) -> tuple[type[Message], Handler]:
        found = self._handlers.get(api_key)
        if found is None:
            module = import_module(f"odradek.gateway.handlers.{api_key.name.lower()}")
            found = self._handlers[api_key] = (module.REQUEST, module.handle)
        return found

    def encode(self, ctx: RequestContext, response: Message) -> list[Buffer]:
        """The response as the parts of one frame, its length prefix first."""
        return encode_response_parts(response, ctx.api_version, ctx.correlation_id)


def _is_served(api_key: ApiKey, api_version: int) -> bool:
    versions = ADVERTISED.get(api_key)
    return versions is not None and versions[0] <= api_version <= versions[1]


def _unsupported(ctx: RequestContext) -> Call:
    if ctx.api_key is not ApiKey.API_VERSIONS:
        raise PeerError(f"{ctx.api_key.name} v{ctx.api_version} is not served")
    low, high = ADVERTISED[ApiKey.API_VERSIONS]
    ctx.api_version = 0
    known = (ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high),)
    return Call(ctx, None, None, ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known))
