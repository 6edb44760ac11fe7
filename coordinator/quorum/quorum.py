"""The machine of one node: what it is to the quorum, and how that changes.

Every state belongs to an epoch, which only grows. A greater epoch in a request or an answer makes any state a follower
of its leader, or unattached where none is named. Within an epoch:

    unattached    time-out ──► prospective              a leader shows itself ──► follower
    follower      no fetch answered in time, or the leader leaves ──► prospective, or unattached
    prospective   a majority would vote for it ──► candidate of the next epoch
                  refused, or time-out ──► follower of the leader it knew, or unattached
    candidate     a majority votes for it ──► leader    time-out ──► prospective
    leader        not heard by a majority, or stopping ──► resigned
    resigned      time-out ──► prospective

An observer is only ever unattached or a follower; it votes for whom asks it, since its own log may not show yet that it
is a voter. A leader that was removed from the voters resigns once that is committed, and stands again if it
loses the leadership before. A node that starts is the follower of the leader that it remembers,
otherwise unattached; if it was leader or candidate itself it is unattached, and cannot be elected in that epoch again.

Every method takes the time in milliseconds on one steady clock. After each, `ready` says what to do.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from uuid import UUID

from odradek.coordinator.quorum.ballot import Ballot, grants
from odradek.coordinator.quorum.exchanges import Exchanges
from odradek.coordinator.quorum.leadership import Leadership
from odradek.coordinator.quorum.snapshots import Download, place_of
from odradek.coordinator.quorum.values import (
    NO_NODE,
    Answer,
    BeginEpoch,
    ElectionState,
    EndEpoch,
    EpochAnswer,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    QuorumLog,
    Ready,
    ReplicaKey,
    Request,
    Role,
    Send,
    SnapshotId,
    State,
    Timing,
    Vote,
    VoteAnswer,
)
from odradek.coordinator.quorum.voters import VotersAt
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.types import ZERO_UUID

_WAITING = (State.UNATTACHED, State.PROSPECTIVE)
"""The states that the leader of the same epoch may end by showing itself."""


class Quorum:
    """One node. `chance` gives random numbers from 0 to below 1, `election` is what the node has made durable.

    `voters` are those of the settings, until the log names others; those of a node that knows only where to ask are
    negative numbers, one for each place. `high_watermark` is how much is known to be committed; it never goes back.
    """

    def __init__(
        self,
        me: ReplicaKey,
        voters: Collection[int],
        log: QuorumLog,
        timing: Timing,
        chance: Iterator[float],
        election: ElectionState,
        now_ms: int,
    ) -> None:
        self.me = me
        self.voters: tuple[int, ...] = ()
        self._directories: Mapping[int, UUID] = {}
        self._configured = {node: ZERO_UUID for node in sorted(voters) if node >= 0}
        self._servers = tuple(node for node in sorted(voters) if node < 0)
        self.election = election
        self.state = State.UNATTACHED
        self.high_watermark = 0
        self.leadership: Leadership | None = None
        self._log = log
        self._timing = timing
        self._chance = chance
        self._exchanges = Exchanges(timing)
        self._ballot: Ballot | None = None
        self._deadline_ms: int | None = None
        self._has_fetched = False
        self._leader_high_watermark = 0
        self._stopping = False
        self._unsaved = False
        self._cut_at: int | None = None
        self._restart_at: SnapshotId | None = None
        self._download: Download | None = None
        self._role: Role | None = None
        self._sends: list[Send] = []
        self._successors: list[ReplicaKey] = []
        self._start(now_ms)

    def _start(self, now_ms: int) -> None:
        self._take_voters(now_ms)
        snapshot = self._log.newest_snapshot
        self.high_watermark = 0 if snapshot is None else snapshot.end_offset
        if self._log.last_epoch > self.epoch:
            self._remember(ElectionState(self._log.last_epoch))
        if self.voters == (self.me.id,) and self.is_voter:
            self._stand(now_ms)
        elif self.election.leader_id not in (NO_NODE, self.me.id):
            self._follow(self.epoch, self.election.leader_id, now_ms)
        else:
            self._enter(State.UNATTACHED, now_ms + int(next(self._chance) * self._timing.election_ms))
        self._send(now_ms)

    # What the node is

    @property
    def epoch(self) -> int:
        """The epoch that it is in."""
        return self.election.epoch

    @property
    def is_voter(self) -> bool:
        """Whether its vote counts; the voter with its id and another directory is another replica."""
        return self._directories.get(self.me.id) in (ZERO_UUID, self.me.directory_id)

    @property
    def _may_stand(self) -> bool:
        """Whether it may lead: also while its removal may not be committed: only its log may have all."""
        named = self._log.voters
        if self.is_voter or named is None:
            return self.is_voter
        return named.offset >= self.high_watermark and named.before is not None and self.me in named.before

    @property
    def is_sole_voter(self) -> bool:
        """Whether it decides alone, as long as it runs: the log names no voters, and the settings no other."""
        return self.voters == (self.me.id,) and self._log.voters is None

    @property
    def voters_in_log(self) -> VotersAt | None:
        """The latest set of voters in the log; None where the settings name them (`kraft.version` 0)."""
        return self._log.voters

    def key_of(self, node: int) -> ReplicaKey:
        """A node with the directory that the set of voters says, if it does."""
        return ReplicaKey(node, self._directories.get(node, ZERO_UUID))

    @property
    def leader_id(self) -> int:
        """The leader of the epoch, as far as it is one and known here; NO_NODE otherwise."""
        leader_id = self.election.leader_id
        return leader_id if leader_id != self.me.id or self.state is State.LEADER else NO_NODE

    @property
    def is_caught_up(self) -> bool:
        """Whether a follower has all that its leader has told to be committed."""
        known = self._leader_high_watermark
        return self.state is State.FOLLOWER and self._has_fetched and 0 < known <= self.high_watermark

    @property
    def others(self) -> tuple[int, ...]:
        """The other voters."""
        return tuple(each for each in self.voters if each != self.me.id)

    # What the caller does

    def ready(self) -> Ready:
        """What is to be done since the last call."""
        election = self.election if self._unsaved else None
        ready = Ready(election, self._cut_at, self._role, self._sends, self._restart_at)
        self._unsaved, self._cut_at, self._role, self._sends, self._restart_at = False, None, None, [], None
        return ready

    def deadline_ms(self, now_ms: int) -> int | None:
        """When `on_time` is due, None when nothing is."""
        due = [self._exchanges.next_ms(node) for node, _ in self._wanted(now_ms)]
        if self._deadline_ms is not None and (self._may_stand or self.state in (State.FOLLOWER, State.RESIGNED)):
            due.append(self._deadline_ms)
        if self.leadership is not None:
            due += [max(at_ms, self._exchanges.next_ms(node)) for node, at_ms in self.leadership.untold()]
            due += [] if self.leadership.check_ms is None else [self.leadership.check_ms]
        return min(due, default=None)

    def on_time(self, now_ms: int) -> None:
        """Do what is due."""
        if self.leadership is not None:
            check_ms = self.leadership.check_ms
            if check_ms is not None and now_ms >= check_ms:
                self._resign(now_ms)
        elif self._deadline_ms is not None and now_ms >= self._deadline_ms:
            self._time_out(now_ms)
        self._send(now_ms)

    def durable(self, now_ms: int) -> None:
        """More of the log is durable than before, or it has got records, was cut or begun anew."""
        self._take_voters(now_ms)
        self._commit()
        self._leave_if_removed(now_ms)
        self._send(now_ms)

    def _take_voters(self, now_ms: int) -> None:
        """The latest set in the log is in force, committed or not."""
        named = self._log.voters
        directories = self._configured if named is None else named.voters.directories
        if directories != self._directories:
            self._directories, self.voters = directories, tuple(sorted(directories))
            if self.leadership is not None:
                self.leadership.set_voters(directories, now_ms)

    def _leave_if_removed(self, now_ms: int) -> None:
        named = self._log.voters
        if self.leadership is None or self.is_voter or named is None or named.offset >= self.high_watermark:
            return
        self._resign(now_ms)

    def stop(self, now_ms: int) -> None:
        """The node is about to stop: it stands for no election any more, and a leader resigns and says so."""
        self._stopping = True
        if self.state is State.LEADER:
            self._resign(now_ms)
        self._send(now_ms)

    def abdicate(self, now_ms: int) -> None:
        """The log of this node has failed: another voter had better lead."""
        if self.state is State.LEADER and not self.is_sole_voter:
            self._resign(now_ms)
        self._send(now_ms)

    @property
    def has_left(self) -> bool:
        """Whether a node that stops may do so: every other voter has heard of it."""
        return self.state is not State.RESIGNED or not list(self._wanted(0))

    # Requests of other nodes

    def vote(self, request: Vote, now_ms: int) -> VoteAnswer:
        """Answer a candidate."""
        if request.epoch < self.epoch:
            return VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if self._is_for_another(request.voter):
            return VoteAnswer(ErrorCode.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        if request.epoch > self.epoch:
            self._unattach(request.epoch, now_ms)
        is_fixed = self._log.voters is None and len(self._configured) > 0
        known = not is_fixed or (self.is_voter and request.candidate.id in self.voters)
        granted = known and grants(request, self.state, self.election, self._log, has_fetched=self._has_fetched)
        if granted and not request.pre_vote and self.election.voted is None:
            self._remember(ElectionState(self.epoch, NO_NODE, request.candidate))
            self._enter(State.UNATTACHED, self._election_deadline(now_ms))
        self._send(now_ms)
        return VoteAnswer(ErrorCode.NONE, self.epoch, self.leader_id, granted)

    def _is_for_another(self, voter: ReplicaKey | None) -> bool:
        """Whether a request is for a replica that this node is not: one that had its id and another disk."""
        if voter is None:
            return False
        return voter.id not in (NO_NODE, self.me.id) or voter.directory_id not in (ZERO_UUID, self.me.directory_id)

    def begin_epoch(self, request: BeginEpoch, now_ms: int) -> EpochAnswer:
        """Take note of a leader that shows itself."""
        if request.epoch < self.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if self._is_for_another(request.voter):
            return EpochAnswer(ErrorCode.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        self._learn(request.epoch, request.leader_id, now_ms)
        if self.election.leader_id == request.leader_id != self.me.id:
            if self.state in _WAITING:
                self._follow(self.epoch, request.leader_id, now_ms)
            elif self.state is State.FOLLOWER:
                self._deadline_ms = now_ms + self._timing.fetch_ms
        self._send(now_ms)
        return EpochAnswer(ErrorCode.NONE, self.epoch, self.leader_id)

    def end_epoch(self, request: EndEpoch, now_ms: int) -> EpochAnswer:
        """Take note of a leader that resigns: its successors stand one after the other, the first at once."""
        if request.epoch < self.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        self._learn(request.epoch, request.leader_id, now_ms)
        if self.state is State.FOLLOWER and self.election.leader_id == request.leader_id:
            ranks = [each.id for each in request.successors]
            rank = ranks.index(self.me.id) if self.me.id in ranks else len(ranks)
            self._enter(State.UNATTACHED, now_ms + rank * self._timing.election_ms // max(len(self.voters), 1))
        self._send(now_ms)
        return EpochAnswer(ErrorCode.NONE, self.epoch, self.leader_id)

    def check_fetch(self, epoch: int) -> ErrorCode:
        """Whether this node serves fetches of that epoch: NONE, or the error."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.state is State.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch(self, request: Fetch, now_ms: int) -> FetchAnswer:
        """Take note of how far a replica is, and answer how much is committed, or from where its log differs."""
        error = self.check_fetch(request.epoch)
        if error or self.leadership is None:
            return FetchAnswer(error, self.epoch, self.leader_id)
        place = self._place(request)
        if place is None:
            self.leadership.fetched(request.replica, request.offset, self._log.end_offset, now_ms)
            self._commit()
            self._leave_if_removed(now_ms)
        snapshot, diverging = (place, None) if isinstance(place, SnapshotId) else (None, place)
        return FetchAnswer(ErrorCode.NONE, self.epoch, self.leader_id, self.high_watermark, diverging, snapshot)

    def _place(self, request: Fetch) -> EpochEnd | SnapshotId | None:
        return place_of(self._log, request.offset, request.last_epoch)

    def fetch_snapshot(self, request: FetchSnapshot, now_ms: int) -> ErrorCode:
        """Take note that a replica downloads a snapshot: NONE, or the error that it is answered."""
        error = self.check_fetch(request.epoch)
        if not error and self.leadership is not None:
            self.leadership.hear(request.replica, now_ms)
        return error

    # Answers of other nodes

    def answered(self, node: int, number: int, answer: Answer, now_ms: int) -> bool:
        """Take an answer; returns whether the records of a Fetch are to be appended, before anything else is done.

        `durable` is called then, also if there were none. Of an answer that is not awaited any more only the epoch
        counts.
        """
        request = self._exchanges.answered(node, number, now_ms)
        if answer.error is not ErrorCode.NONE:
            self._exchanges.pause(node, now_ms)
        self._learn(answer.epoch, answer.leader_id, now_ms)
        takes = False
        if request is not None and request.epoch == answer.epoch == self.epoch:
            takes = self._use(node, request, answer, now_ms)
        if not takes:
            self._send(now_ms)
        return takes

    def failed(self, node: int, number: int, now_ms: int) -> None:
        """There was no answer."""
        if self._exchanges.answered(node, number, now_ms) is not None:
            self._exchanges.pause(node, now_ms)
        self._send(now_ms)

    def _use(self, node: int, request: Request, answer: Answer, now_ms: int) -> bool:
        if isinstance(answer, VoteAnswer):
            self._count(node, request, answer, now_ms)
        elif isinstance(answer, FetchAnswer) and isinstance(request, Fetch):
            return self._fetched(node, answer, now_ms)
        elif isinstance(answer, FetchSnapshotAnswer) and isinstance(request, FetchSnapshot):
            return self._downloaded(node, answer, now_ms)
        elif self.leadership is not None:
            self.leadership.has_begun(node, now_ms)
        elif self.state is State.RESIGNED and isinstance(request, EndEpoch) and self._ballot is not None:
            self._ballot.record(node, granted=True)
        return False

    def _count(self, node: int, request: Request, answer: VoteAnswer, now_ms: int) -> None:
        ballot = self._ballot
        wanted = {State.PROSPECTIVE: True, State.CANDIDATE: False}.get(self.state)
        if ballot is None or not isinstance(request, Vote) or request.pre_vote is not wanted or answer.error:
            return
        ballot.record(node, answer.granted)
        if ballot.is_won:
            self._elected(ballot.granting, now_ms)
        elif ballot.is_lost and self.state is State.PROSPECTIVE:
            self._give_up(now_ms)

    def _fetched(self, node: int, answer: FetchAnswer, now_ms: int) -> bool:
        is_known = answer.leader_id == self.election.leader_id not in (NO_NODE, self.me.id)
        if is_known and self.state is State.UNATTACHED and (not answer.error or not self._may_stand):
            self._follow(self.epoch, answer.leader_id, now_ms)  # it answers again, or is said to lead still
            return False
        if self.state is not State.FOLLOWER or node != self.election.leader_id:
            self._exchanges.pause(node, now_ms)
            return False
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # it has restarted, or resigned
            self._enter(State.UNATTACHED, self._election_deadline(now_ms) - self._timing.election_ms)
        if answer.error:
            return False
        self._deadline_ms, self._has_fetched = now_ms + self._timing.fetch_ms, True
        if answer.diverging is not None:
            self._cut(answer.diverging)
            return False
        if answer.snapshot is not None:
            self._begin_download(node, answer.snapshot, now_ms)
            return False
        self._leader_high_watermark = answer.high_watermark
        return True

    def _begin_download(self, node: int, snapshot: SnapshotId, now_ms: int) -> None:
        if snapshot == self._log.newest_snapshot:
            self._restart_at = snapshot
        elif snapshot.end_offset > self.high_watermark:
            self._download = Download(snapshot)
        else:  # a leader that keeps to the rules has none for a log that goes further
            self._exchanges.pause(node, now_ms)

    def _downloaded(self, node: int, answer: FetchSnapshotAnswer, now_ms: int) -> bool:
        download = self._download
        if download is None:
            return False
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._enter(State.UNATTACHED, self._election_deadline(now_ms) - self._timing.election_ms)
        elif answer.error or not download.takes(answer):  # a Fetch says what is to be fetched now
            self._download = None
            self._exchanges.pause(node, now_ms)
        else:
            self._deadline_ms, self._has_fetched = now_ms + self._timing.fetch_ms, True
            download.is_storing = True
        return download.is_storing

    def stored(self, snapshot: SnapshotId, position: int, now_ms: int, *, is_whole: bool) -> None:
        """The caller has stored the bytes of a snapshot up to `position`. With the last of them the log begins anew."""
        download = self._download
        if download is not None and download.is_storing and download.snapshot == snapshot:
            download.position, download.is_storing = position, False
            if is_whole:
                self._download, self._restart_at = None, snapshot
        self._send(now_ms)

    def not_stored(self, snapshot: SnapshotId, now_ms: int) -> None:
        """The caller cannot store a snapshot, or what came of it is none: it is asked for again, after a pause."""
        if self._download is not None and self._download.snapshot == snapshot:
            self._download = None
            self._exchanges.pause(self.election.leader_id, now_ms)
        self._send(now_ms)

    def _cut(self, diverging: EpochEnd) -> None:
        own = self._log.epoch_end(diverging.epoch)
        offset = min(diverging.offset, self._log.end_offset, own.offset if own.offset >= 0 else self._log.end_offset)
        told = f"{diverging} own={own} end={self._log.end_offset}/{self._log.last_epoch} base={self._log.base}"
        assert offset >= self.high_watermark, f"committed records would be cut: {offset} < {self.high_watermark} {told}"
        self._cut_at = offset

    # Transitions

    def _learn(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Another node is in `epoch`, and knows its leader or not."""
        if epoch < self.epoch or (epoch == self.epoch and self.election.leader_id != NO_NODE):
            return
        if leader_id not in (NO_NODE, self.me.id):
            self._follow(epoch, leader_id, now_ms)
        elif epoch > self.epoch:
            self._unattach(epoch, now_ms)

    def _follow(self, epoch: int, leader_id: int, now_ms: int) -> None:
        voted = self.election.voted if epoch == self.epoch else None
        self._remember(ElectionState(epoch, leader_id, voted))
        self._enter(State.FOLLOWER, now_ms + self._timing.fetch_ms)
        self._leader_high_watermark = 0

    def _unattach(self, epoch: int, now_ms: int) -> None:
        self._remember(ElectionState(epoch))
        self._enter(State.UNATTACHED, self._election_deadline(now_ms))

    def _time_out(self, now_ms: int) -> None:
        if not self._may_stand:
            if self.state in (State.FOLLOWER, State.RESIGNED):
                self._enter(State.UNATTACHED, None)
        elif self._stopping:
            self._deadline_ms = None
        elif self.state in (State.PROSPECTIVE, State.CANDIDATE) and self._ballot is not None and self._ballot.is_won:
            self._elected(self._ballot.granting, now_ms)
        elif self.state is State.PROSPECTIVE:
            self._give_up(now_ms)
        else:
            self._ask_before(now_ms)

    def _ask_before(self, now_ms: int) -> None:
        self._enter(State.PROSPECTIVE, self._election_deadline(now_ms))
        self._open_ballot(now_ms)

    def _open_ballot(self, now_ms: int) -> None:
        """Where its own vote is enough it is elected once that is durable, at once where nothing has to be."""
        ballot = self._ballot = Ballot(self.voters, self.me.id)
        if ballot.is_won and self.is_sole_voter:
            self._elected(ballot.granting, now_ms)
        elif ballot.is_won:
            self._deadline_ms = now_ms

    def _give_up(self, now_ms: int) -> None:
        leader_id = self.election.leader_id
        if leader_id not in (NO_NODE, self.me.id):
            self._enter(State.FOLLOWER, self._election_deadline(now_ms))
        else:
            self._enter(State.UNATTACHED, self._election_deadline(now_ms))

    def _elected(self, granting: list[int], now_ms: int) -> None:
        if self.state is State.PROSPECTIVE:
            self._stand(now_ms)
        else:
            self._lead(granting, now_ms)

    def _stand(self, now_ms: int) -> None:
        self._remember(ElectionState(self.epoch + 1, NO_NODE, self.me))
        self._enter(State.CANDIDATE, self._election_deadline(now_ms))
        self._open_ballot(now_ms)

    def _lead(self, granting: list[int], now_ms: int) -> None:
        self._remember(ElectionState(self.epoch, self.me.id, self.election.voted))
        self._enter(State.LEADER, None, granting)
        at, is_alone = self._log.end_offset, self.is_sole_voter
        self.leadership = Leadership(self.me, self._directories, at, self._timing, now_ms, is_alone=is_alone)
        self._commit()

    def _resign(self, now_ms: int) -> None:
        assert self.leadership is not None
        self._successors = self.leadership.successors()
        self._enter(State.RESIGNED, self._election_deadline(now_ms))
        self._ballot = Ballot(self.voters, self.me.id)  # of those that have heard of it

    def _enter(self, state: State, deadline_ms: int | None, granting: Iterable[int] = ()) -> None:
        self.state, self._deadline_ms = state, deadline_ms
        self._ballot = self.leadership = self._download = None
        self._has_fetched = False
        self._exchanges.forget()
        self._sends = []
        self._role = Role(state, self.epoch, self.leader_id, tuple(granting))

    def _remember(self, election: ElectionState) -> None:
        if election != self.election:
            self.election = election
            self._unsaved = not self.is_sole_voter

    def _election_deadline(self, now_ms: int) -> int:
        return now_ms + int(self._timing.election_ms * (1 + next(self._chance)))

    def _commit(self) -> None:
        base = self._log.base
        if base is not None and base.end_offset > self.high_watermark:
            self.high_watermark = base.end_offset
        durable = self._log.durable_end_offset
        if self.leadership is not None:
            committed = self.leadership.committed(durable)
        else:
            committed = min(self._leader_high_watermark, durable) if self.state is State.FOLLOWER else None
        if committed is not None and committed > self.high_watermark:
            self.high_watermark = committed

    # Requests to other nodes

    def _send(self, now_ms: int) -> None:
        for node, request in list(self._wanted(now_ms)):
            if now_ms >= self._exchanges.next_ms(node):
                self._sends.append(Send(node, self._exchanges.sent(node, request, now_ms), request))

    def _wanted(self, now_ms: int) -> Iterable[tuple[int, Request]]:
        """What is to be sent to whom, as soon as nothing else is under way there."""
        state, epoch, log = self.state, self.epoch, self._log
        if state in (State.PROSPECTIVE, State.CANDIDATE):
            assert self._ballot is not None
            pre_vote = state is State.PROSPECTIVE
            at = (max(log.last_epoch, 0), log.end_offset)
            return [(node, Vote(epoch, self.me, *at, pre_vote, self.key_of(node))) for node in self._ballot.unanswered]
        if self.leadership is not None:
            told = [node for node, at_ms in self.leadership.untold() if now_ms >= at_ms]
            return [(node, BeginEpoch(epoch, self.me.id, self.key_of(node))) for node in told]
        if state is State.RESIGNED:
            assert self._ballot is not None
            end = EndEpoch(epoch, self.me.id, self._successors)
            return [(node, end) for node in self._ballot.unanswered]
        return self._fetches()

    def _fetches(self) -> Iterable[tuple[int, Request]]:
        """The next Fetch: of the leader, or of any other voter or place in the settings, which names the leader."""
        log, download = self._log, self._download
        if download is not None:
            part = FetchSnapshot(self.epoch, self.me, download.snapshot, download.position)
            return [] if download.is_storing else [(self.election.leader_id, part)]
        if log.durable_end_offset < log.end_offset or self._cut_at is not None or self._restart_at is not None:
            return []  # it would acknowledge what a crash could take back
        if self.state is State.FOLLOWER:
            node = self.election.leader_id
        elif asked := (*self.others, *self._servers):
            node = min(asked, key=lambda each: (self._exchanges.next_ms(each), each))
        else:
            return []
        fetch = Fetch(self.epoch, self.me, log.end_offset, max(log.last_epoch, 0), self.high_watermark)
        return [(node, fetch)]

    def progress(self) -> Mapping[int, tuple[int, int]]:
        """The end offset of each replica that the leader knows of, and when it last fetched; for tests and logs."""
        if self.leadership is None:
            return {}
        observers = {key.id: each for key, each in self.leadership.observers.items()}
        known = {**observers, **self.leadership.voters}
        return {node: (each.end_offset, each.fetched_ms) for node, each in known.items()}
