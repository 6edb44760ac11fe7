"""The sets of voters that a metadata log names (KIP-853): the latest *appended* one is in force, committed or not.

A leader changes the set by a record, and one voter at a time, so that every majority of the old set and every majority
of the new one have a voter in common. A log that is cut goes back to the set before. A log without such a record
belongs to a quorum whose voters the settings name (`kraft.version` 0).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.values import immutable

KRAFT_VERSION: Final = "kraft.version"
"""The feature that says whether the set of voters changes."""
KRAFT_VERSIONS: Final = (0, 1)
"""The levels of `kraft.version` that this software serves; 1 is a set of voters that changes."""
NOT_IN_LOG: Final = -1
"""The offset of the set that a quorum begins with, before it is written."""


class ReplicaKey(NamedTuple):
    """A node and its data directory: a node whose disk was replaced is another replica (KIP-853)."""

    id: int
    directory_id: UUID = ZERO_UUID


@immutable
class Voter:
    """A voter, where it listens to other controllers by each listener's name, and the `kraft.version`s it serves."""

    key: ReplicaKey
    endpoints: Mapping[str, tuple[str, int]]
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS


@immutable
class VoterSet:
    """The voters, in the order of their ids, each id once."""

    voters: tuple[Voter, ...]

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> "VoterSet":
        """The set of these voters."""
        return cls(tuple(sorted(voters, key=lambda each: each.key.id)))

    @property
    def directories(self) -> Mapping[int, UUID]:
        """The directory of each voter by its id."""
        return {each.key.id: each.key.directory_id for each in self.voters}

    def get(self, node_id: int) -> Voter | None:
        """The voter of that id."""
        return next((each for each in self.voters if each.key.id == node_id), None)

    def __contains__(self, key: ReplicaKey) -> bool:
        return any(each.key == key for each in self.voters)

    def having(self, voter: Voter) -> "VoterSet":
        """The set with `voter`, in the place of the one with its id if there is one."""
        return VoterSet.of([*(each for each in self.voters if each.key.id != voter.key.id), voter])

    def without(self, key: ReplicaKey) -> "VoterSet":
        """The set without that voter."""
        return VoterSet(tuple(each for each in self.voters if each.key != key))


class VotersAt(NamedTuple):
    """A set of voters, and the offset of its record; NOT_IN_LOG for the set that a quorum begins with. `before` is the
    set before it in the log, where that is known.
    """

    offset: int
    voters: VoterSet
    before: VoterSet | None = None


class VoterHistory:
    """The sets that a log names, from the one in force at its beginning on."""

    def __init__(self) -> None:
        self._sets: list[VotersAt] = []

    @property
    def latest(self) -> VotersAt | None:
        """The set in force; None where the log names none."""
        return self._sets[-1] if self._sets else None

    def before(self, end_offset: int) -> VoterSet | None:
        """The set in force where only the records below `end_offset` count; what a snapshot that ends there has."""
        return next((each.voters for each in reversed(self._sets) if 0 <= each.offset < end_offset), None)

    def begin(self, at: VotersAt | None) -> None:
        """The log begins, or begins anew, with this set in force."""
        self._sets = [] if at is None else [at]

    def append(self, at: VotersAt) -> None:
        """A record of the log names a set; offsets rise."""
        self._sets.append(at._replace(before=self._sets[-1].voters if self._sets else None))

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset` now: the set before what was cut is in force again."""
        self._sets = [each for each in self._sets if each.offset < end_offset]
