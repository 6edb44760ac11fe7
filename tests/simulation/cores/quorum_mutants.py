"""Bugs to plant in the quorum: each removes one safety step, and breaks the invariant named with it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import quorum_node
from plant import inside, plant
from quorum_disks import Log
from quorum_faults import DOWNLOADING, FAILING, VOTING, Faults
from quorum_invariants import Invariant
from quorum_node import Node

from odradek.coordinator.quorum import ballot, quorum
from odradek.coordinator.quorum.exchanges import Exchanges
from odradek.coordinator.quorum.leadership import Leadership
from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.snapshots import divergence_of
from odradek.coordinator.quorum.values import ElectionState, EpochEnd, SnapshotId, State


class Mutant(NamedTuple):
    plant: Callable[[pytest.MonkeyPatch], None]
    broken: Invariant
    voters: int = 3
    faults: Faults | None = None


def vote_not_persisted(patch: pytest.MonkeyPatch) -> None:
    """The election state is never written."""
    plant(patch, Node, "_persist", lambda self, _election, then: self.after(self.sync_us(), then))


def sent_before_persisted(patch: pytest.MonkeyPatch) -> None:
    """Votes are sent before the election state is durable."""

    def persist(self: Node, election: ElectionState, then: Callable[[], None]) -> None:
        self.after(self.sync_us(), lambda: setattr(self.disk, "election", election))
        then()

    plant(patch, Node, "_persist", persist)


def fetch_before_sync(patch: pytest.MonkeyPatch) -> None:
    """A follower continues to fetch while its last records are not durable."""
    fetches = inside(Quorum, "_fetches")

    def eager(self: Any) -> Any:
        durable, self._log.durable_end_offset = self._log.durable_end_offset, self._log.end_offset
        try:
            return fetches(self)
        finally:
            self._log.durable_end_offset = durable

    plant(patch, Quorum, "_fetches", eager)


def stands_before_sync(patch: pytest.MonkeyPatch) -> None:
    """A node stands for election with records that are not durable, and that its log may lose when it is opened again.

    It then leads without them, and the others cut committed records off.
    """
    time_out = inside(Quorum, "_time_out")

    def eager(self: Any, now_ms: int) -> None:
        durable, self._log.durable_end_offset = self._log.durable_end_offset, self._log.end_offset
        try:
            time_out(self, now_ms)
        finally:
            self._log.durable_end_offset = durable

    plant(patch, Quorum, "_time_out", eager)


def leader_counts_unsynced(patch: pytest.MonkeyPatch) -> None:
    """The leader serves records that it has not synced, and counts them as durable."""
    patch.setattr(Log, "readable_end_offset", property(lambda self: self.end_offset))
    commit = inside(Quorum, "_commit")

    def early(self: Any) -> None:
        durable = self._log.durable_end_offset
        if self.state is State.LEADER:
            self._log.durable_end_offset = self._log.end_offset
        commit(self)
        self._log.durable_end_offset = durable

    plant(patch, Quorum, "_commit", early)


def mark_after_sync(patch: pytest.MonkeyPatch) -> None:
    """The durability mark is taken when the sync ends: records appended during the sync count as durable."""

    def end_sync(self: Log, mark: int) -> None:
        self.syncing = False
        self.disk.records = self.entries[:mark]
        self.durable_end_offset = len(self.entries)

    patch.setattr(Log, "end_sync", end_sync)


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log diverges gets records instead of the offset to truncate to."""
    plant(patch, Quorum, "_divergence", lambda _self, _request: None)


def diverging_recorded(patch: pytest.MonkeyPatch) -> None:
    """A fetch counts as an acknowledgement although the log diverges (KAFKA-13141)."""
    divergence = inside(Quorum, "_divergence")

    def recording(self: Any, request: Any) -> EpochEnd | SnapshotId | None:
        found = divergence(self, request)
        if found is not None:
            self.leadership.fetched(request.replica, request.offset, self._log.end_offset, 0)
            self._commit()
        return found

    plant(patch, Quorum, "_divergence", recording)


def no_log_check(patch: pytest.MonkeyPatch) -> None:
    """Votes are granted to any log."""
    patch.setattr(ballot, "is_up_to_date", lambda _vote, _log: True)


def log_length_alone(patch: pytest.MonkeyPatch) -> None:
    """Logs are compared by their length, regardless of the epoch of the last record."""
    patch.setattr(ballot, "is_up_to_date", lambda vote, log: vote.end_offset >= log.end_offset)


def old_epoch_committed(patch: pytest.MonkeyPatch) -> None:
    """A majority commits records of an earlier epoch, without a record of the leader's own."""
    committed = Leadership.committed

    def any_epoch(self: Leadership, durable_end_offset: int) -> int | None:
        start, self.epoch_start_offset = self.epoch_start_offset, -1
        found = committed(self, durable_end_offset)
        self.epoch_start_offset = start
        return found

    patch.setattr(Leadership, "committed", any_epoch)


def pre_votes_count(patch: pytest.MonkeyPatch) -> None:
    """A candidate counts pre-votes as votes."""

    def elected(self: Any, granting: list[int], now_ms: int) -> None:
        if self.state is State.PROSPECTIVE:
            self._become_candidate(now_ms)
        self._lead(granting, now_ms)

    plant(patch, Quorum, "_elected", elected)


def resumed_leadership(patch: pytest.MonkeyPatch) -> None:
    """A leader that restarts continues in its epoch (KAFKA-10527)."""
    start = inside(Quorum, "_start")

    def resume(self: Any, now_ms: int) -> None:
        start(self, now_ms)
        if self.election.leader_id == self.me.id:
            self._lead([], now_ms)

    plant(patch, Quorum, "_start", resume)


def fetch_not_correlated(patch: pytest.MonkeyPatch) -> None:
    """Any answer of the leader counts as the answer to the newest Fetch."""
    answered = Exchanges.answered

    def newest(self: Any, node: int, number: int, now_ms: int) -> Any:
        found = self._by_node.get(node)
        return answered(self, node, number if found is None else found.number, now_ms)

    patch.setattr(Exchanges, "answered", newest)


def minority_commits(patch: pytest.MonkeyPatch) -> None:
    """One replica less than a majority commits."""
    init = Leadership.__init__

    def lenient(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self._majority -= 1

    patch.setattr(Leadership, "__init__", lenient)


def minority_elects(patch: pytest.MonkeyPatch) -> None:
    """One vote less than a majority elects."""
    patch.setattr(ballot.Ballot, "is_won", property(lambda self: len(self.granting) >= len(self._voters) // 2))


def votes_for_all(patch: pytest.MonkeyPatch) -> None:
    """A voter votes for every candidate of an epoch."""
    grants = quorum.grants

    def again(vote: Any, state: State, election: ElectionState, log: Any, *, has_fetched: bool) -> bool:
        open_again = ElectionState(election.epoch) if state is State.UNATTACHED else election
        return grants(vote, state, open_again, log, has_fetched=has_fetched)

    patch.setattr(quorum, "grants", again)


def observers_count(patch: pytest.MonkeyPatch) -> None:
    """The log of an observer counts for the majority."""
    committed = Leadership.committed

    def with_observers(self: Leadership, durable_end_offset: int) -> int | None:
        voters = self.voters
        self.voters = {**voters, **self.observers}
        try:
            return committed(self, durable_end_offset)
        finally:
            self.voters = voters

    patch.setattr(Leadership, "committed", with_observers)


def never_resigns(patch: pytest.MonkeyPatch) -> None:
    """A leader continues without a majority."""
    patch.setattr(Leadership, "check_ms", None)


def trimmed_before_the_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    """The log is trimmed to a snapshot that is not durable yet."""
    write_snapshot = Node.write_snapshot

    def eager(self: Node, snapshot: SnapshotId, content: Any) -> None:
        self.disk.start = snapshot.end_offset
        write_snapshot(self, snapshot, content)

    patch.setattr(Node, "write_snapshot", eager)


def snapshot_of_the_uncommitted(patch: pytest.MonkeyPatch) -> None:
    """A snapshot contains all records of the log."""
    write_snapshot = Node.write_snapshot

    def all_of_it(self: Node, _snapshot: SnapshotId, _content: Any) -> None:
        log = self.log
        write_snapshot(self, SnapshotId(log.end_offset, log.last_epoch), log.content(log.end_offset))

    patch.setattr(Node, "write_snapshot", all_of_it)


def begun_anew_before_the_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower empties its log before the snapshot that it has downloaded is durable."""
    begin_anew = inside(Node, "_begin_anew")

    def eager(self: Any, ready: Any, snapshot: SnapshotId, reply: Any) -> None:
        self.disk.start = snapshot.end_offset
        begin_anew(self, ready, snapshot, reply)

    plant(patch, Node, "_begin_anew", eager)


def base_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log ends where the leader's begins continues there, whatever its records below are."""

    def by_offset(self: Any, request: Any) -> EpochEnd | SnapshotId | None:
        base = self._log.base
        if base is not None and request.offset >= base.end_offset and request.last_epoch <= base.epoch:
            return None
        return divergence_of(self._log, request.offset, request.last_epoch)

    plant(patch, Quorum, "_divergence", by_offset)


def log_behind_its_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A node that ended before its log was restarted behind a snapshot continues with the old log."""
    patch.setattr(quorum_node, "is_behind", lambda _log, _snapshot: False)


MUTANTS = {
    "vote_not_persisted": Mutant(vote_not_persisted, Invariant.VOTES_ONCE, faults=VOTING),
    "sent_before_persisted": Mutant(sent_before_persisted, Invariant.VOTES_ONCE, faults=VOTING),
    "fetch_before_sync": Mutant(fetch_before_sync, Invariant.SYNCED),
    "stands_before_sync": Mutant(stands_before_sync, Invariant.COMPLETE, faults=FAILING),
    "leader_counts_unsynced": Mutant(leader_counts_unsynced, Invariant.MAJORITY),
    "mark_after_sync": Mutant(mark_after_sync, Invariant.SYNCED),
    "no_truncation": Mutant(no_truncation, Invariant.MATCHING),
    "diverging_recorded": Mutant(diverging_recorded, Invariant.MAJORITY),
    "no_log_check": Mutant(no_log_check, Invariant.COMPLETE),
    "log_length_alone": Mutant(log_length_alone, Invariant.COMPLETE),
    "pre_votes_count": Mutant(pre_votes_count, Invariant.ONE_LEADER),
    "resumed_leadership": Mutant(resumed_leadership, Invariant.LEADS_ONCE),
    "fetch_not_correlated": Mutant(fetch_not_correlated, Invariant.MATCHING),
    "minority_commits": Mutant(minority_commits, Invariant.MAJORITY),
    "minority_elects": Mutant(minority_elects, Invariant.ONE_LEADER, voters=4),
    "votes_for_all": Mutant(votes_for_all, Invariant.VOTES_ONCE),
    "observers_count": Mutant(observers_count, Invariant.MAJORITY),
    "never_resigns": Mutant(never_resigns, Invariant.RESIGNS),
    "trimmed_before_the_snapshot_is_durable": Mutant(trimmed_before_the_snapshot_is_durable, Invariant.TRIMMED),
    "snapshot_of_the_uncommitted": Mutant(snapshot_of_the_uncommitted, Invariant.SNAPSHOT),
    "begun_anew_before_the_snapshot_is_durable": Mutant(
        begun_anew_before_the_snapshot_is_durable, Invariant.TRIMMED, faults=DOWNLOADING
    ),
    "base_not_compared": Mutant(base_not_compared, Invariant.MATCHING),
    "log_behind_its_snapshot": Mutant(log_behind_its_snapshot, Invariant.PREFIX, faults=DOWNLOADING),
}
