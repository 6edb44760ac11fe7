"""Errors of the protocol: the exceptions of this package, and Kafka's error codes.

The exceptions are split by who broke the rule, so that a caller knows what to do: close the
connection (:class:`DecodeError`, :class:`FrameTooLargeError`), answer with UNSUPPORTED_VERSION
(:class:`UnsupportedVersionError`), or look for our own bug (:class:`EncodeError`).
"""

from __future__ import annotations

from odradek.wire.error_codes import ErrorCode

__all__ = [
    "DecodeError",
    "EncodeError",
    "ErrorCode",
    "FrameTooLargeError",
    "ProtocolError",
    "UnsupportedVersionError",
]


class ProtocolError(Exception):
    """Bytes or values that the protocol does not allow; the only exception that :mod:`wire` raises."""


class DecodeError(ProtocolError):
    """The peer sent bytes that are no valid message; its connection cannot be trusted any more."""


class FrameTooLargeError(DecodeError):
    """The peer announced a frame above the limit; the message names the setting that holds it."""


class UnsupportedVersionError(ProtocolError):
    """A message has no such version, or an API key is unknown."""


class EncodeError(ProtocolError):
    """We built a message that its version cannot carry: our own bug, not the peer's."""
