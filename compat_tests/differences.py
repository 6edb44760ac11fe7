"""Known differences between what a client sees of Odradek and of Apache Kafka, each with its reason.

A difference that is listed here and no longer happens fails the suite, as one that happens and is not listed does.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Difference:
    """One accepted difference: ``path`` (with ``*``) is the place in the observation, e.g. ``topic.*.source``."""

    client: str
    case: str
    path: str
    reason: str

    def covers(self, client: str, case: str, path: str) -> bool:
        """Whether this entry explains a difference at that place."""
        return fnmatchcase(client, self.client) and case == self.case and fnmatchcase(path, self.path)


KNOWN: tuple[Difference, ...] = ()
