"""Decodes the topics that a consumer subscribes to from its JoinGroup metadata.

Otherwise the coordinator treats that metadata as opaque. It needs the topics in order not to delete or expire offsets
that are in use. Only the version 0 prefix is read; every later version of Kafka's ConsumerProtocolSubscription begins
with it.
"""

import struct

_HEADER = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


class MalformedSubscription(ValueError):  # noqa: N818 - named by condition
    """A member's metadata is not a subscription of the consumer protocol; its topics are then unknown."""


def subscribed_topics(metadata: bytes) -> list[str]:
    """Returns the topics in a serialised subscription.

    Raises:
        MalformedSubscription: the metadata ends too early, or a topic is not UTF-8.
    """
    try:
        _version, count = _HEADER.unpack_from(metadata)
        return _read_strings(metadata, _HEADER.size, count)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedSubscription(str(error)) from error


def _read_strings(data: bytes, position: int, count: int) -> list[str]:
    strings: list[str] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(data):
            raise MalformedSubscription(f"a string of {length} bytes at byte {position} of {len(data)}")
        strings.append(str(data[position : position + length], "utf-8"))
        position += length
    return strings
