"""Errors of the protocol: the exceptions of this package, and Kafka's error codes.

The exceptions are split by cause. The broker closes the connection of a peer that causes one (:class:`DecodeError`,
:class:`FrameTooLargeError`, :class:`UnsupportedVersionError`). For a stored record UnsupportedVersionError means that a
newer Kafka wrote it. :class:`EncodeError` is a bug of ours.
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
    """Bytes or values that the protocol does not allow; the base of all exceptions of :mod:`wire` except those of
    ``records``.
    """


class DecodeError(ProtocolError):
    """The peer sent bytes that are not a valid message; its connection has to be closed."""


class FrameTooLargeError(DecodeError):
    """The peer announced a frame above the limit; the message names the setting with the limit."""


class UnsupportedVersionError(ProtocolError):
    """The message does not have this version, or the API key is unknown."""


class EncodeError(ProtocolError):
    """A value cannot be encoded in the requested version: a bug of ours, not the peer's."""
