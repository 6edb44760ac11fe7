"""The voter sets in a metadata log (KIP-853): the latest *appended* one is in force, committed or not.

A leader changes the set with a record, one voter at a time, so that every majority of the old set and every majority of
the new one have a voter in common. When the log is truncated, the preceding set is in force again. Without such a
record in the log the voters are configured and fixed (`kraft.version` 0).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.values import immutable

KRAFT_VERSION: Final = "kraft.version"
"""The feature level that determines whether the voter set can change."""
KRAFT_VERSIONS: Final = (0, 1)
"""The supported levels of `kraft.version`; with 1 the voter set can change."""
NOT_IN_LOG: Final = -1
"""The offset of a quorum's initial voter set before it is written."""


class ReplicaKey(NamedTuple):
    """A node and its data directory: a node whose disk was replaced is another replica (KIP-853)."""

    id: int
    directory_id: UUID = ZERO_UUID


@immutable
class Voter:
    """A voter, its endpoints by the names of the controllers' listeners, and the `kraft.version`s that it supports."""

    key: ReplicaKey
    endpoints: Mapping[str, tuple[str, int]]
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS


@immutable
class VoterSet:
    """The voters, in the order of their ids, each id once."""

    voters: tuple[Voter, ...]

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        """Returns the set of these voters."""
        return cls(tuple(sorted(voters, key=lambda each: each.key.id)))

    @property
    def directories(self) -> Mapping[int, UUID]:
        """The directory of each voter by its id."""
        return {each.key.id: each.key.directory_id for each in self.voters}

    def get(self, node_id: int) -> Voter | None:
        """Returns the voter with that id, None if there is none."""
        return next((each for each in self.voters if each.key.id == node_id), None)

    def __contains__(self, key: ReplicaKey) -> bool:
        return any(each.key == key for each in self.voters)

    def having(self, voter: Voter) -> "VoterSet":
        """Returns the set with `voter` added, or replacing the voter with the same id."""
        return VoterSet.of([*(each for each in self.voters if each.key.id != voter.key.id), voter])

    def without(self, key: ReplicaKey) -> "VoterSet":
        """Returns the set without that voter."""
        return VoterSet(tuple(each for each in self.voters if each.key != key))


class VotersAt(NamedTuple):
    """A voter set and the offset of its record, NOT_IN_LOG for a quorum's initial set.

    `before` is the preceding set in the log, None if unknown.
    """

    offset: int
    voters: VoterSet
    before: VoterSet | None = None


class VoterHistory:
    """The voter sets in a log, from the one in force at its start on."""

    def __init__(self) -> None:
        self._sets: list[VotersAt] = []

    @property
    def latest(self) -> VotersAt | None:
        """The set in force; None if the log has none."""
        return self._sets[-1] if self._sets else None

    def before(self, end_offset: int) -> VoterSet | None:
        """Returns the set in force below `end_offset`, which a snapshot that ends there contains."""
        return next((each.voters for each in reversed(self._sets) if 0 <= each.offset < end_offset), None)

    def begin(self, at: VotersAt | None) -> None:
        """The log starts, or restarts, with this set in force."""
        self._sets = [] if at is None else [at]

    def append(self, at: VotersAt) -> None:
        """A record of the log contains a set; offsets increase."""
        self._sets.append(at._replace(before=self._sets[-1].voters if self._sets else None))

    def cut(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`: the last set below it is in force again."""
        self._sets = [each for each in self._sets if each.offset < end_offset]
