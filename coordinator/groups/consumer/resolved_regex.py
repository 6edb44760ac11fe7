"""The result of matching a subscription's regular expression against the topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched at `timestamp_ms`, in metadata of that `version`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int
