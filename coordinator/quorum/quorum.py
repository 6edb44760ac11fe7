"""The state machine of one node of the quorum.

Every state belongs to an epoch, which only grows. When a request or response contains a greater epoch, a node in any
state becomes a follower of the leader given there, or unattached if none is given. Within an epoch:

    unattached    time-out ──► prospective              a leader is known ──► follower
    follower      no fetch answered in time, or the leader leaves ──► prospective, or unattached
    prospective   a majority grants the pre-vote ──► candidate of the next epoch
                  refused, or time-out ──► follower of the last known leader, or unattached
    candidate     a majority grants the vote ──► leader    time-out ──► prospective
    leader        no fetches from a majority, or stopping ──► resigned
    resigned      time-out ──► prospective

An observer is always unattached or a follower. It grants votes too, since it may be a voter by a record that its own
log does not have yet. A leader that was removed from the voters resigns once the removal is committed; if it loses the
leadership before, it may become a candidate again. At start a node follows the leader in its stored election state;
without one it is unattached. If it was leader or candidate itself, it cannot be elected in that epoch again.

Every method takes the time in milliseconds on one steady clock. After each call, `ready` returns what to do.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from uuid import UUID

from odradek.coordinator.quorum.ballot import Ballot, grants
from odradek.coordinator.quorum.epoch_allowance import MAX_EPOCH, EpochAllowance
from odradek.coordinator.quorum.exchanges import Exchanges
from odradek.coordinator.quorum.leadership import Leadership
from odradek.coordinator.quorum.snapshots import Download, agreed_end, divergence_of
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
"""The states that BeginQuorumEpoch from the leader of the same epoch ends."""


class Quorum:
    """The quorum's state machine on one node.

    `voters` are the configured ones, in force until the log contains a voter set; a node that is configured with
    bootstrap servers only has a negative number for each. `chance` yields random numbers in [0, 1), and `election` is
    the durable election state. `high_watermark` is the offset known to be committed; it only grows.
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
        self._allowance = EpochAllowance(now_ms)
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
            self._set_election(ElectionState(self._log.last_epoch))
        if self.voters == (self.me.id,) and self.is_voter:
            self._become_candidate(now_ms)
        elif self.election.leader_id not in (NO_NODE, self.me.id):
            self._follow(self.epoch, self.election.leader_id, now_ms)
        else:
            self._enter(State.UNATTACHED, now_ms + int(next(self._chance) * self._timing.election_ms))
        self._send(now_ms)

    # State

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.election.epoch

    @property
    def is_voter(self) -> bool:
        """True if this node is a voter; a voter with its id but another directory is another replica."""
        return self._directories.get(self.me.id) in (ZERO_UUID, self.me.directory_id)

    @property
    def _may_lead(self) -> bool:
        """True if it may become leader. A removed voter may until that is committed: it may have the only full log.

        False in the last epoch, after which there is none to lead.
        """
        named = self._log.voters
        if self.epoch >= MAX_EPOCH or self.is_voter or named is None:
            return self.is_voter and self.epoch < MAX_EPOCH
        return named.offset >= self.high_watermark and named.before is not None and self.me in named.before

    @property
    def is_sole_voter(self) -> bool:
        """True if this node is the only voter: the log has no voter set, and this node alone is configured."""
        return self.voters == (self.me.id,) and self._log.voters is None

    @property
    def voters_in_log(self) -> VotersAt | None:
        """The latest voter set in the log; None if there is none (`kraft.version` 0)."""
        return self._log.voters

    def key_of(self, node: int) -> ReplicaKey:
        """Returns the replica key of `node`; its directory is zero if the voter set has none."""
        return ReplicaKey(node, self._directories.get(node, ZERO_UUID))

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; NO_NODE if unknown, or if it is this node without being in state LEADER."""
        leader_id = self.election.leader_id
        return leader_id if leader_id != self.me.id or self.state is State.LEADER else NO_NODE

    @property
    def is_caught_up(self) -> bool:
        """True if this follower has reached the high watermark that its leader last reported."""
        known = self._leader_high_watermark
        return self.state is State.FOLLOWER and self._has_fetched and 0 < known <= self.high_watermark

    # Calls of the driver

    def ready(self) -> Ready:
        """Returns what the caller must do as a result of the events since the last call."""
        election = self.election if self._unsaved else None
        ready = Ready(election, self._cut_at, self._role, self._sends, self._restart_at)
        self._unsaved, self._cut_at, self._role, self._sends, self._restart_at = False, None, None, [], None
        return ready

    def deadline_ms(self, now_ms: int) -> int | None:
        """Returns when `on_time` must be called next; None if no time is set."""
        due = [self._exchanges.next_ms(node) for node, _ in self._wanted(now_ms)]
        if self._deadline_ms is not None and (self._may_lead or self.state in (State.FOLLOWER, State.RESIGNED)):
            due.append(self._deadline_ms)
        if self.leadership is not None:
            due += [max(at_ms, self._exchanges.next_ms(node)) for node, at_ms in self.leadership.to_notify()]
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
        """The log has changed: more of it is durable, or records were appended, truncated or replaced by a snapshot."""
        self._take_voters(now_ms)
        self._commit()
        self._leave_if_removed(now_ms)
        self._send(now_ms)

    def _take_voters(self, now_ms: int) -> None:
        """Use the latest voter set in the log, committed or not (as Raft requires)."""
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
        """Stop: start no further election; a leader resigns and sends EndQuorumEpoch."""
        self._stopping = True
        if self.state is State.LEADER:
            self._resign(now_ms)
        self._send(now_ms)

    def hand_over(self, now_ms: int) -> None:
        """The log of this node has failed: a leader resigns, so that another voter can lead."""
        if self.state is State.LEADER and not self.is_sole_voter:
            self._resign(now_ms)
        self._send(now_ms)

    @property
    def has_left(self) -> bool:
        """True if a stopping node may exit: every other voter has responded to EndQuorumEpoch."""
        return self.state is not State.RESIGNED or not list(self._wanted(0))

    # Requests of other nodes

    def vote(self, request: Vote, now_ms: int) -> VoteAnswer:
        """Handle a Vote request of a candidate or prospective node."""
        if request.epoch < self.epoch:
            return VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if self._is_for_another(request.voter):
            return VoteAnswer(ErrorCode.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        if request.epoch > self.epoch:
            if refusal := self._refusal(request.candidate.id, request.epoch, now_ms):
                return VoteAnswer(refusal, self.epoch, self.leader_id)
            self._unattach(request.epoch, now_ms)
        known = self._fixed_voters is None or (self.is_voter and request.candidate.id in self.voters)
        granted = known and grants(request, self.state, self.election, self._log, has_fetched=self._has_fetched)
        if granted and not request.pre_vote and self.election.voted is None:
            self._set_election(ElectionState(self.epoch, NO_NODE, request.candidate))
            self._enter(State.UNATTACHED, self._election_deadline(now_ms))
        self._send(now_ms)
        return VoteAnswer(ErrorCode.NONE, self.epoch, self.leader_id, granted)

    @property
    def _fixed_voters(self) -> Collection[int] | None:
        """The voters of the settings (`kraft.version` 0); None if the log has them, or is to have them."""
        return self._configured if self._configured and self._log.voters is None else None

    def _refusal(self, sender: int, epoch: int, now_ms: int) -> ErrorCode:
        return self._allowance.refusal(sender, self._fixed_voters, epoch - self.epoch, now_ms)

    def _is_for_another(self, voter: ReplicaKey | None) -> bool:
        """True if a request is addressed to another replica: another id, or this id with another directory."""
        if voter is None:
            return False
        return voter.id not in (NO_NODE, self.me.id) or voter.directory_id not in (ZERO_UUID, self.me.directory_id)

    def begin_epoch(self, request: BeginEpoch, now_ms: int) -> EpochAnswer:
        """Handle BeginQuorumEpoch: follow the leader of the epoch."""
        if request.epoch < self.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if self._is_for_another(request.voter):
            return EpochAnswer(ErrorCode.INVALID_VOTER_KEY, self.epoch, self.leader_id)
        if refusal := self._refusal(request.leader_id, request.epoch, now_ms):
            return EpochAnswer(refusal, self.epoch, self.leader_id)
        self._learn(request.epoch, request.leader_id, now_ms)
        if self.election.leader_id == request.leader_id != self.me.id:
            if self.state in _WAITING:
                self._follow(self.epoch, request.leader_id, now_ms)
            elif self.state is State.FOLLOWER:
                self._deadline_ms = now_ms + self._timing.fetch_ms
        self._send(now_ms)
        return EpochAnswer(ErrorCode.NONE, self.epoch, self.leader_id)

    def end_epoch(self, request: EndEpoch, now_ms: int) -> EpochAnswer:
        """Handle EndQuorumEpoch: the leader has resigned; its successors time out in turn, the first at once."""
        if request.epoch < self.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, self.epoch, self.leader_id)
        if refusal := self._refusal(request.leader_id, request.epoch, now_ms):
            return EpochAnswer(refusal, self.epoch, self.leader_id)
        self._learn(request.epoch, request.leader_id, now_ms)
        if self.state is State.FOLLOWER and self.election.leader_id == request.leader_id:
            ranks = [each.id for each in request.successors]
            rank = ranks.index(self.me.id) if self.me.id in ranks else len(ranks)
            self._enter(State.UNATTACHED, now_ms + rank * self._timing.election_ms // max(len(self.voters), 1))
        self._send(now_ms)
        return EpochAnswer(ErrorCode.NONE, self.epoch, self.leader_id)

    def check_fetch(self, epoch: int) -> ErrorCode:
        """Returns the error for a fetch with that epoch; NONE if this node serves it."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.state is State.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch(self, request: Fetch, now_ms: int) -> FetchAnswer:
        """Record a replica's progress; the response has the high watermark, or the point where its log diverges."""
        error, leadership = self.check_fetch(request.epoch), self.leadership
        if error or leadership is None:
            return FetchAnswer(error, self.epoch, self.leader_id)
        found = self._divergence(request)
        if found is None:
            leadership.fetched(request.replica, request.offset, self._log.end_offset, now_ms)
            self._commit()
            self._leave_if_removed(now_ms)
        snapshot, diverging = (found, None) if isinstance(found, SnapshotId) else (None, found)
        reported = leadership.reported(self.high_watermark)
        return FetchAnswer(ErrorCode.NONE, self.epoch, self.leader_id, reported, diverging, snapshot)

    def _divergence(self, request: Fetch) -> EpochEnd | SnapshotId | None:
        return divergence_of(self._log, request.offset, request.last_epoch)

    def fetch_snapshot(self, request: FetchSnapshot, now_ms: int) -> ErrorCode:
        """Record contact by a replica that downloads a snapshot; returns the error of the response, or NONE."""
        error = self.check_fetch(request.epoch)
        if not error and self.leadership is not None:
            self.leadership.note_contact(request.replica, now_ms)
        return error

    # Answers of other nodes

    def answered(self, node: int, number: int, answer: Answer, now_ms: int) -> bool:
        """Handle a response. If True, the caller must process its contents.

        Fetch: before anything else, append the records (if any) and call `durable`, or `not_stored`. FetchSnapshot:
        see `download`. Of a response that is no longer expected, only the epoch and leader are used.
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
        """The request failed without a response."""
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
            self.leadership.notified(node, now_ms)
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
            self._end_pre_vote(now_ms)

    def _fetched(self, node: int, answer: FetchAnswer, now_ms: int) -> bool:
        is_known = answer.leader_id == self.election.leader_id not in (NO_NODE, self.me.id)
        if is_known and self.state is State.UNATTACHED and (not answer.error or not self._may_lead):
            self._follow(self.epoch, answer.leader_id, now_ms)  # the leader has responded, or another node has named it
            return False
        if self.state is not State.FOLLOWER or node != self.election.leader_id:
            self._exchanges.pause(node, now_ms)
            return False
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # the leader has restarted, or resigned
            self._enter(State.UNATTACHED, self._election_deadline(now_ms) - self._timing.election_ms)
        if answer.error:
            return False
        self._deadline_ms, self._has_fetched = now_ms + self._timing.fetch_ms, True
        if answer.diverging is not None:
            self._cut_at = agreed_end(self._log, answer.diverging, self.high_watermark)
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
        else:  # a protocol violation: the snapshot ends within what is committed here
            self._exchanges.pause(node, now_ms)

    def _downloaded(self, node: int, answer: FetchSnapshotAnswer, now_ms: int) -> bool:
        download = self._download
        if download is None:
            return False
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._enter(State.UNATTACHED, self._election_deadline(now_ms) - self._timing.election_ms)
        elif answer.error or not download.takes(answer):  # the next Fetch determines which snapshot to download
            self._download = None
            self._exchanges.pause(node, now_ms, self._timing.unstored_ms)
        else:
            self._deadline_ms, self._has_fetched = now_ms + self._timing.fetch_ms, True
            download.is_storing = True
        return download.is_storing

    @property
    def download(self) -> Download | None:
        """The download in progress. When `answered` returns True for a part of it, the caller stores that part.

        Parts are stored in the order of the responses. `stored` and `not_stored` take the download that the part
        belongs to: it may have been dropped meanwhile, and the same snapshot requested again.
        """
        return self._download

    def stored(self, download: Download, position: int, now_ms: int, *, is_whole: bool) -> None:
        """The caller has stored a snapshot up to `position`. When it is whole, the log restarts from the snapshot."""
        if download is self._download:
            download.position, download.is_storing = position, False
            if is_whole:
                self._download, self._restart_at = None, download.snapshot
        self._send(now_ms)

    def not_stored(self, download: Download | None, now_ms: int) -> None:
        """Drop a download, or records (None), that were invalid or could not be stored; fetch again after a pause."""
        if download is self._download:
            self._download = None
            self._exchanges.pause(self.election.leader_id, now_ms, self._timing.unstored_ms)
        self._send(now_ms)

    # Transitions

    def _learn(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Another node is in `epoch`; `leader_id` is NO_NODE if it knows no leader."""
        if epoch < self.epoch or (epoch == self.epoch and self.election.leader_id != NO_NODE):
            return
        if leader_id not in (NO_NODE, self.me.id):
            self._follow(epoch, leader_id, now_ms)
        elif epoch > self.epoch:
            self._unattach(epoch, now_ms)

    def _follow(self, epoch: int, leader_id: int, now_ms: int) -> None:
        voted = self.election.voted if epoch == self.epoch else None
        self._set_election(ElectionState(epoch, leader_id, voted))
        self._enter(State.FOLLOWER, now_ms + self._timing.fetch_ms)
        self._leader_high_watermark = 0

    def _unattach(self, epoch: int, now_ms: int) -> None:
        self._set_election(ElectionState(epoch))
        self._enter(State.UNATTACHED, self._election_deadline(now_ms))

    def _time_out(self, now_ms: int) -> None:
        if not self._may_lead:
            if self.state in (State.FOLLOWER, State.RESIGNED):
                self._enter(State.UNATTACHED, None)
        elif self._stopping:
            self._deadline_ms = None
        elif self.state in (State.PROSPECTIVE, State.CANDIDATE) and self._ballot is not None and self._ballot.is_won:
            self._elected(self._ballot.granting, now_ms)
        elif self.state is State.PROSPECTIVE:
            self._end_pre_vote(now_ms)
        elif self._log.durable_end_offset < self._log.end_offset:  # if the write fails, it lacks what its votes claim
            self._enter(State.UNATTACHED, self._election_deadline(now_ms))
        else:
            self._begin_pre_vote(now_ms)

    def _begin_pre_vote(self, now_ms: int) -> None:
        self._enter(State.PROSPECTIVE, self._election_deadline(now_ms))
        self._open_ballot(now_ms)

    def _open_ballot(self, now_ms: int) -> None:
        """Start a ballot. If its own vote decides: elected once that vote is durable, or at once if none is stored."""
        ballot = self._ballot = Ballot(self.voters, self.me.id)
        if ballot.is_won and self.is_sole_voter:
            self._elected(ballot.granting, now_ms)
        elif ballot.is_won:
            self._deadline_ms = now_ms

    def _end_pre_vote(self, now_ms: int) -> None:
        follows = self.election.leader_id not in (NO_NODE, self.me.id)
        self._enter(State.FOLLOWER if follows else State.UNATTACHED, self._election_deadline(now_ms))

    def _elected(self, granting: list[int], now_ms: int) -> None:
        if self.state is State.PROSPECTIVE:
            self._become_candidate(now_ms)
        else:
            self._lead(granting, now_ms)

    def _become_candidate(self, now_ms: int) -> None:
        self._set_election(ElectionState(self.epoch + 1, NO_NODE, self.me))
        self._enter(State.CANDIDATE, self._election_deadline(now_ms))
        self._open_ballot(now_ms)

    def _lead(self, granting: list[int], now_ms: int) -> None:
        self._set_election(ElectionState(self.epoch, self.me.id, self.election.voted))
        self._enter(State.LEADER, None, granting)
        at, is_alone = self._log.end_offset, self.is_sole_voter
        self.leadership = Leadership(self.me, self._directories, at, self._timing, now_ms, is_alone=is_alone)
        self._commit()

    def _resign(self, now_ms: int) -> None:
        assert self.leadership is not None
        self._successors = self.leadership.successors()
        self._enter(State.RESIGNED, self._election_deadline(now_ms))
        self._ballot = Ballot(self.voters, self.me.id)  # counts the responses to EndQuorumEpoch

    def _enter(self, state: State, deadline_ms: int | None, granting: Iterable[int] = ()) -> None:
        self.state, self._deadline_ms = state, deadline_ms
        self._ballot = self.leadership = self._download = None
        self._has_fetched = False
        self._exchanges.forget()
        self._sends = []
        self._role = Role(state, self.epoch, self.leader_id, tuple(granting))

    def _set_election(self, election: ElectionState) -> None:
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
        """Returns the next request for each node without a request in flight."""
        state, epoch, log = self.state, self.epoch, self._log
        if state in (State.PROSPECTIVE, State.CANDIDATE):
            assert self._ballot is not None
            pre_vote = state is State.PROSPECTIVE
            at = (max(log.last_epoch, 0), log.end_offset)
            return [(node, Vote(epoch, self.me, *at, pre_vote, self.key_of(node))) for node in self._ballot.unanswered]
        if self.leadership is not None:
            due = [node for node, at_ms in self.leadership.to_notify() if now_ms >= at_ms]
            return [(node, BeginEpoch(epoch, self.me.id, self.key_of(node))) for node in due]
        if state is State.RESIGNED:
            assert self._ballot is not None
            end = EndEpoch(epoch, self.me.id, self._successors)
            return [(node, end) for node in self._ballot.unanswered]
        return self._fetches()

    def _fetches(self) -> Iterable[tuple[int, Request]]:
        """Returns the next Fetch: to the leader, or if unknown to another voter or bootstrap server to find it."""
        log, download = self._log, self._download
        if download is not None:
            part = FetchSnapshot(self.epoch, self.me, download.snapshot, download.position)
            return [] if download.is_storing else [(self.election.leader_id, part)]
        if log.durable_end_offset < log.end_offset or self._cut_at is not None or self._restart_at is not None:
            return []  # a Fetch acknowledges everything below its offset, which must be durable
        if self.state is State.FOLLOWER:
            node = self.election.leader_id
        elif asked := [each for each in (*self.voters, *self._servers) if each != self.me.id]:
            node = min(asked, key=lambda each: (self._exchanges.next_ms(each), each))
        else:
            return []
        fetch = Fetch(self.epoch, self.me, log.end_offset, max(log.last_epoch, 0), self.high_watermark)
        return [(node, fetch)]
