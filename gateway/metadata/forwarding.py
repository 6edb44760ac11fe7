"""Forwards clients' requests to the active controller in Envelopes, and unpacks the responses (KIP-590).

A client may send a change of metadata to any broker. The request is forwarded with the client's address and principal;
the response is the controller's own. Envelopes are imported at their first use, so that a broker starts faster.
"""

from typing import TYPE_CHECKING, Final

from odradek.gateway.errors import PeerError
from odradek.gateway.metadata.channel import ControllerChannel, ControllerUnreachableError
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.schema.schema import Message

if TYPE_CHECKING:
    from odradek.wire.messages.envelope import EnvelopeResponse

ENVELOPE_VERSION: Final = 0


async def not_enveloped(_request: Message) -> Message:
    """The answer of a channel whose node is the active controller: an Envelope without a response."""
    from odradek.wire.messages.envelope import EnvelopeResponse

    return EnvelopeResponse(response_data=None)


class Forwarder:
    """Forwards requests over `channel`, whose `decide` is `not_enveloped`; each waits up to `timeout_ms`."""

    def __init__(self, channel: ControllerChannel, timeout_ms: int) -> None:
        self._channel = channel
        self._timeout_ms = timeout_ms

    async def forward(
        self, key: ApiKey, version: int, correlation_id: int, client_id: str | None, host: bytes, request: Message
    ) -> Message | None:
        """The controller's response; None if this node must answer: it is active now, or no controller answers.

        `host` is the client's address in 4 or 16 bytes. Raises PeerError if the controller failed on this request: the
        client's connection is closed, as the controller closes that of its own client.
        """
        from odradek.gateway.metadata.principal import anonymous_principal
        from odradek.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

        framed = encode_request(request, version, correlation_id, client_id)
        envelope = EnvelopeRequest(
            request_data=memoryview(framed)[LENGTH_BYTES:],
            request_principal=anonymous_principal(),
            client_host_address=host,
        )
        try:
            answer = await self._channel.call(envelope, ENVELOPE_VERSION, self._timeout_ms)
        except ControllerUnreachableError:
            return None
        assert isinstance(answer, EnvelopeResponse)
        if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            raise PeerError(f"the active controller failed on its {key.name}, see its log")
        if answer.error_code or answer.response_data is None:
            return None
        return _unpacked(key, version, correlation_id, answer)


def _unpacked(key: ApiKey, version: int, correlation_id: int, answer: "EnvelopeResponse") -> Message | None:
    assert answer.response_data is not None
    try:
        found, response = decode_response(key, version, answer.response_data)
    except ProtocolError:
        return None
    return response if found == correlation_id else None
