"""A request that is repeated word for word, and that would be answered as before."""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.gateway.net.transport import Buffer
from odradek.wire.frames import LENGTH_BYTES

CORRELATION_AT: Final = LENGTH_BYTES + 4
"""In a request's frame, behind its API key and version."""
CORRELATION_END: Final = CORRELATION_AT + 4
REPLY_CORRELATION_END: Final = LENGTH_BYTES + 4


class StandingAnswer:
    """What a connection said last and was told.

    `again` has the request's effect once more and says whether the answer is still the same; when it is not, nothing
    has happened that the request, handled as any other, would not do anyhow.
    """

    __slots__ = ("_again", "_head", "_reply", "_tail")

    def __init__(self, frame: memoryview, reply: Sequence[Buffer], again: Callable[[], bool]) -> None:
        """`frame` is the request without its length, `reply` the whole frame of the answer."""
        request = len(frame).to_bytes(LENGTH_BYTES, "big") + frame
        self._head, self._tail = request[:CORRELATION_AT], request[CORRELATION_END:]
        self._reply = bytearray().join(reply)
        self._again = again

    def to(self, word: bytes) -> bytearray | None:
        """The answer to what was received, if that is the request again and nothing else; else None.

        It is the same bytes each time, with another correlation id.
        """
        if word[CORRELATION_END:] != self._tail or word[:CORRELATION_AT] != self._head or not self._again():
            return None
        self._reply[LENGTH_BYTES:REPLY_CORRELATION_END] = word[CORRELATION_AT:CORRELATION_END]
        return self._reply
