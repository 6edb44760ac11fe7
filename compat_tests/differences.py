"""Known differences between Odradek and Apache Kafka as clients observe them, each with its reason.

A listed difference that no longer happens fails the suite, as does an unlisted one that happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Difference:
    """One accepted difference: ``path`` is the path in the observation, e.g. ``topic.*.source``.

    ``client`` and ``path`` may contain a ``*``; a ``[`` in a path is written ``[[]``, as in shell patterns.
    """

    client: str
    case: str
    path: str
    reason: str

    def covers(self, client: str, case: str, path: str) -> bool:
        """True if this entry explains a difference at that path."""
        return self.is_about(client, case) and fnmatchcase(path, self.path)

    def is_about(self, client: str, case: str) -> bool:
        """True if this entry explains anything in that case."""
        return fnmatchcase(client, self.client) and case == self.case


_DURABLE = "Odradek acknowledges after a synced commit by default (flush.messages=1), Kafka leaves it to the page cache"
_AT_ONCE = "Odradek has made the topic when it answers; Kafka answers UNKNOWN_TOPIC_OR_PARTITION and is asked again"

_REMEMBERS = (
    "after kill -9 Kafka recognises the retry of a producer's last batch only, and none older than "
    "producer.id.expiration.ms; Odradek stores producer state with the batches and recognises the last five"
)

KNOWN: tuple[Difference, ...] = (
    Difference("raw-frames", "retry-after-crash", "now.again[[]0]*", _REMEMBERS),
    Difference("raw-frames", "retry-after-crash", "long ago.*", _REMEMBERS),
    Difference("*", "configs", "*flush.messages*", _DURABLE),
    Difference("aiokafka", "unknown-topic", "errors.describe missing[[]0]", _AT_ONCE),
    Difference(
        "raw-frames", "bad-crc", "null", "Kafka fails inside and never answers a null record set; Odradek refuses it"
    ),
    Difference(
        "raw-frames",
        "bad-crc",
        "length huge.error",
        "Kafka meets an unexpected exception (UNKNOWN_SERVER_ERROR); Odradek says INVALID_RECORD",
    ),
    Difference(
        "raw-frames",
        "bad-crc",
        "codec 6.error",
        "Kafka meets an unexpected exception (UNKNOWN_SERVER_ERROR); Odradek says UNSUPPORTED_COMPRESSION_TYPE",
    ),
)
