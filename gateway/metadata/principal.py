"""The principal for whom a node forwards a request, as Kafka's brokers write it into an Envelope (KIP-590)."""

from typing import Final

from odradek.wire.messages.default_principal_data import DefaultPrincipalData
from odradek.wire.schema.codec import encode

VERSION: Final = 0


def anonymous_principal() -> bytes:
    """The anonymous principal, which all clients have without authentication, after two bytes of version."""
    data = DefaultPrincipalData(type="User", name="ANONYMOUS")
    return VERSION.to_bytes(2, "big") + bytes(encode(data, VERSION))
