"""The progress of the replicas that fetch from a leader, and the committed offset that follows from it."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from odradek.coordinator.quorum.ballot import majority_of
from odradek.coordinator.quorum.values import UNKNOWN_OFFSET, ReplicaKey, Timing
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.values import mutable

OBSERVER_KEPT_MS: Final = 300_000
"""How long the progress of an observer is kept after its last fetch."""
MAX_OBSERVERS: Final = 1000
NEVER_MS: Final = -1


@mutable
class ReplicaProgress:
    """The progress of a replica; times are -1 before the first fetch. `end_offset` is -1 while it is unknown."""

    directory_id: UUID = ZERO_UUID
    end_offset: int = -1
    fetched_ms: int = NEVER_MS
    caught_up_ms: int = NEVER_MS
    leader_end_offset: int = -1

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a fetch from `offset`, which acknowledges everything below it."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self.leader_end_offset >= 0 and offset >= self.leader_end_offset:
            self.caught_up_ms = self.fetched_ms
        self.end_offset, self.fetched_ms, self.leader_end_offset = offset, now_ms, leader_end_offset


class Leadership:
    """The leadership of one epoch. `epoch_start_offset` is the offset of the LeaderChange record.

    `voters` are the other voters. The leader is a voter itself, unless its removal is in the log: it then leads until
    the removal is committed, and does not count towards a majority. `is_alone`: this node is the only voter, so
    everything durable here is committed.
    """

    def __init__(
        self,
        me: ReplicaKey,
        directories: Mapping[int, UUID],
        epoch_start_offset: int,
        timing: Timing,
        now_ms: int,
        *,
        is_alone: bool = False,
    ) -> None:
        self.epoch_start_offset = epoch_start_offset
        self.voters: dict[int, ReplicaProgress] = {}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._me = me
        self._is_alone = is_alone
        self._timing = timing
        self._contacted: set[int] = set()
        self._begun_ms: dict[int, int] = {}
        self.set_voters(directories, now_ms)

    def set_voters(self, directories: Mapping[int, UUID], now_ms: int) -> None:
        """Use another set of voters, given by their ids; the recorded progress of the replicas is kept."""
        known = {ReplicaKey(node, each.directory_id): each for node, each in self.voters.items()} | self.observers
        self._directories = directories
        self._own_vote = int(directories.get(self._me.id) in (ZERO_UUID, self._me.directory_id))
        self._majority = majority_of(directories)
        self.voters = {
            node: known.pop(ReplicaKey(node, directory_id), None) or ReplicaProgress(directory_id)
            for node, directory_id in directories.items()
            if node != self._me.id
        }
        self.observers = {key: each for key, each in known.items() if each.fetched_ms != NEVER_MS}
        self._begun_ms = {node: self._begun_ms.get(node, 0) for node in self.voters}
        self._contacted &= set(self.voters)
        self._check_ms = now_ms + self._timing.check_quorum_ms

    def is_voter(self, replica: ReplicaKey) -> bool:
        """True if a replica is one of the other voters, with the same directory if that is known (KIP-853)."""
        directory_id = self._directories.get(replica.id)
        return replica.id in self.voters and directory_id in (ZERO_UUID, replica.directory_id)

    def fetched(self, replica: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record the fetch of a replica whose log agrees with this one up to `offset`; nothing for a consumer's."""
        if replica.id < 0:
            return
        if self.is_voter(replica):
            progress = self.voters[replica.id]
            self.note_contact(replica, now_ms)
        else:
            progress = self._observer(replica, now_ms)
        progress.directory_id = replica.directory_id
        progress.fetched(offset, leader_end_offset, now_ms)

    def active_observers(self, now_ms: int) -> dict[ReplicaKey, ReplicaProgress]:
        """Returns the observers that have fetched within the last five minutes; `observers` may have others as well."""
        return {key: each for key, each in self.observers.items() if now_ms - each.fetched_ms < OBSERVER_KEPT_MS}

    def _observer(self, replica: ReplicaKey, now_ms: int) -> ReplicaProgress:
        if replica not in self.observers:
            self.observers = self.active_observers(now_ms)
            if len(self.observers) >= MAX_OBSERVERS:
                return ReplicaProgress()
        return self.observers.setdefault(replica, ReplicaProgress())

    def note_contact(self, replica: ReplicaKey, now_ms: int) -> None:
        """Record a replica's fetch. Fetches of a majority of voters extend the leadership; observers do not count."""
        if not self.is_voter(replica):
            return
        self._contacted.add(replica.id)
        self._begun_ms[replica.id] = now_ms + self._timing.fetch_ms // 2
        if len(self._contacted) + self._own_vote >= self._majority:
            self._contacted.clear()
            self._check_ms = now_ms + self._timing.check_quorum_ms

    def notified(self, voter: int, now_ms: int) -> None:
        """A voter has responded to BeginQuorumEpoch."""
        if voter in self._begun_ms:
            self._begun_ms[voter] = now_ms + self._timing.fetch_ms // 2

    def to_notify(self) -> Iterable[tuple[int, int]]:
        """Returns each other voter, and when BeginQuorumEpoch is due to it unless it fetches before."""
        return self._begun_ms.items()

    @property
    def check_ms(self) -> int | None:
        """When the leader resigns unless a majority of voters fetches before; None if no other voter is needed."""
        return self._check_ms if self._majority > self._own_vote else None

    def committed(self, durable_end_offset: int) -> int | None:
        """Returns the offset up to which a majority has the log; None while that includes no record of this epoch."""
        own = [durable_end_offset] * self._own_vote
        ends = sorted([*own, *(each.end_offset for each in self.voters.values())], reverse=True)
        offset = ends[self._majority - 1]
        if offset <= self.epoch_start_offset and not self._is_alone:
            return None
        return offset

    def has_committed(self, high_watermark: int) -> bool:
        """True if the high watermark includes a record of this epoch, and so all that earlier leaders have committed.

        Until then a leader that has restarted may know less than they did. True for a sole voter in any case.
        """
        return self._is_alone or high_watermark > self.epoch_start_offset

    def reported(self, high_watermark: int) -> int:
        """Returns the high watermark for responses, UNKNOWN_OFFSET until it includes a record of this epoch."""
        return high_watermark if self.has_committed(high_watermark) else UNKNOWN_OFFSET

    def successors(self) -> list[ReplicaKey]:
        """Returns the other voters, those with the most records first."""
        ranked = sorted(self.voters.items(), key=lambda each: (-each[1].end_offset, each[0]))
        return [ReplicaKey(node, progress.directory_id) for node, progress in ranked]
