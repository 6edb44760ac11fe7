"""Single steps of the quorum's state machine that the simulation does not cover individually."""

from itertools import repeat
from uuid import UUID

import pytest

from odradek.coordinator.quorum.election_state import from_text, to_text
from odradek.coordinator.quorum.epoch_allowance import MAX_EPOCH, MOST_EPOCHS, MS_AN_EPOCH
from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.snapshots import Download, is_behind
from odradek.coordinator.quorum.values import (
    BeginEpoch,
    ElectionState,
    EndEpoch,
    EpochAnswer,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    ReplicaKey,
    SnapshotId,
    State,
    Timing,
    Vote,
    VoteAnswer,
)
from odradek.coordinator.quorum.voters import Voter, VotersAt, VoterSet
from odradek.wire.errors import ErrorCode

ME, OTHER, THIRD = (ReplicaKey(each, UUID(int=each)) for each in (1, 2, 3))


class SomeLog:
    """A log of some epochs, durable by default."""

    base: SnapshotId | None = None
    newest_snapshot: SnapshotId | None = None
    voters: VotersAt | None = None

    def __init__(self, *epochs: int) -> None:
        self.epochs = list(epochs)
        self.durable_end_offset = len(epochs)

    @property
    def end_offset(self) -> int:
        return len(self.epochs)

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else 0

    def epoch_end(self, epoch: int) -> EpochEnd:
        known = [each for each in self.epochs if each <= epoch]
        return EpochEnd(known[-1] if known else epoch, len(known))


def machine(
    log: SomeLog, voters: tuple[int, ...] = (1, 2, 3), election: ElectionState | None = None, me: ReplicaKey = ME
) -> Quorum:
    return Quorum(me, voters, log, Timing(), repeat(0.5), election or ElectionState(), 0)


def elected(log: SomeLog) -> Quorum:
    """A candidate that got the vote of voter 2 in both rounds, pre-vote and vote."""
    quorum = machine(log)
    quorum.on_time(500)
    for _ in range(2):
        ask = next(send for send in quorum.ready().sends if send.to == OTHER.id)
        quorum.answered(2, ask.number, VoteAnswer(ErrorCode.NONE, quorum.epoch, -1, granted=True), 501)
    assert quorum.state is State.LEADER
    return quorum


def test_a_sole_voter_leads_at_once_with_nothing_to_make_durable_first() -> None:
    log = SomeLog(1, 1, 4)
    ready = (quorum := machine(log, voters=(1,))).ready()
    assert (ready.election, ready.sends) == (None, [])
    assert ready.role is not None
    assert (ready.role.state, ready.role.epoch, ready.role.granting) == (State.LEADER, 5, (1,))
    assert quorum.high_watermark == 3
    assert quorum.deadline_ms(0) is None


def test_a_candidacy_is_made_durable_before_votes_are_asked_for() -> None:
    quorum = machine(SomeLog())
    quorum.on_time(500)
    before = quorum.ready()
    assert before.election is None
    assert all(isinstance(send.request, Vote) and send.request.pre_vote for send in before.sends)
    quorum.answered(2, before.sends[0].number, VoteAnswer(ErrorCode.NONE, 0, -1, granted=True), 501)
    ready = quorum.ready()
    assert ready.election == ElectionState(1, -1, ME)
    assert {send.to for send in ready.sends} == {2, 3}


def test_a_leader_commits_what_a_majority_has_from_its_own_record_on() -> None:
    log = SomeLog(1, 1)
    quorum = elected(log)
    answer = quorum.fetch(Fetch(quorum.epoch, OTHER, 2, 1, 0), 510)
    assert (quorum.high_watermark, answer.high_watermark) == (0, -1)
    log.epochs.append(quorum.epoch)
    log.durable_end_offset = 3
    answer = quorum.fetch(Fetch(quorum.epoch, OTHER, 3, quorum.epoch, 0), 520)
    assert (quorum.high_watermark, answer.high_watermark) == (3, 3)


def test_a_follower_has_not_caught_up_with_a_leader_that_does_not_know_what_is_committed() -> None:
    """The leader has restarted: it knows that its snapshot is committed, but not what the last leader has committed."""
    leading = SomeLog(1, 1, 1)
    leading.base = leading.newest_snapshot = SnapshotId(1, 1)
    leader, following = elected(leading), SomeLog(1, 1, 1)
    leading.epochs.append(leader.epoch)
    leading.durable_end_offset = 4
    follower = machine(following, me=OTHER)
    follower.begin_epoch(BeginEpoch(leader.epoch, ME.id, OTHER), 600)
    assert leader.high_watermark == 1

    def fetch(now_ms: int) -> None:
        [send] = [each for each in follower.ready().sends if isinstance(each.request, Fetch)]
        assert follower.answered(ME.id, send.number, leader.fetch(send.request, now_ms), now_ms)
        following.epochs[3:] = leading.epochs[3:]
        following.durable_end_offset = 4
        follower.durable(now_ms)

    fetch(610)
    assert not follower.is_caught_up
    fetch(620)
    fetch(630)
    assert follower.is_caught_up
    assert (leader.high_watermark, follower.high_watermark) == (4, 4)


def test_a_consumer_of_the_metadata_log_is_no_observer() -> None:
    quorum = elected(SomeLog(1, 1))
    answer = quorum.fetch(Fetch(quorum.epoch, ReplicaKey(-1, UUID(int=9)), 2, 1, 0), 510)
    assert answer.error is ErrorCode.NONE
    assert quorum.leadership is not None
    assert not quorum.leadership.observers
    observer = ReplicaKey(4, UUID(int=9))
    quorum.fetch(Fetch(quorum.epoch, observer, 2, 1, 0), 520)
    assert set(quorum.leadership.observers) == {observer}


def test_an_observer_is_active_for_five_minutes_after_its_last_fetch() -> None:
    quorum = elected(SomeLog(1, 1))
    assert quorum.leadership is not None
    gone, stays = ReplicaKey(4, UUID(int=4)), ReplicaKey(5, UUID(int=5))
    for replica, now_ms in ((gone, 510), (stays, 511)):
        quorum.fetch(Fetch(quorum.epoch, replica, 2, 1, 0), now_ms)
    assert set(quorum.leadership.active_observers(510 + 300_000 - 1)) == {gone, stays}
    assert set(quorum.leadership.active_observers(510 + 300_000)) == {stays}


def test_a_leader_that_stops_names_the_voter_with_the_most_records_first() -> None:
    quorum = elected(SomeLog(1, 1))
    quorum.fetch(Fetch(quorum.epoch, THIRD, 1, 1, 0), 510)
    quorum.ready()
    quorum.stop(520)
    sends = quorum.ready().sends
    assert [send.to for send in sends] == [2, 3]
    assert [each.id for each in sends[0].request.successors] == [3, 2]
    assert not quorum.has_left
    for send in sends:
        quorum.answered(send.to, send.number, EpochAnswer(ErrorCode.NONE, quorum.epoch, -1), 530)
    assert quorum.has_left


def test_no_fetch_leaves_before_the_log_is_durable() -> None:
    log = SomeLog(1)
    quorum = machine(log, election=ElectionState(1, 2))
    fetch = quorum.ready().sends[0]
    assert quorum.answered(2, fetch.number, FetchAnswer(ErrorCode.NONE, 1, 2, 2), 10)
    log.epochs.append(1)
    quorum.durable(10)
    assert quorum.ready().sends == []
    log.durable_end_offset = 2
    quorum.durable(11)
    assert [send.request.offset for send in quorum.ready().sends] == [2]
    assert quorum.high_watermark == 2


def test_records_that_could_not_be_appended_are_fetched_again_after_a_long_pause() -> None:
    """The disk probably still fails; with `retry_ms` the leader would send the same records 50 times a second."""
    quorum = machine(SomeLog(1), election=ElectionState(1, 2))
    fetch = quorum.ready().sends[0]
    assert quorum.answered(2, fetch.number, FetchAnswer(ErrorCode.NONE, 1, 2, 1), 10)
    quorum.not_stored(None, 10)
    quorum.durable(10)
    assert quorum.high_watermark == 1
    assert quorum.ready().sends == []
    again_ms = 10 + Timing().fetch_ms // 2
    assert quorum.deadline_ms(10) == again_ms
    quorum.on_time(again_ms - 1)
    assert quorum.ready().sends == []
    quorum.on_time(again_ms)
    assert [send.request.offset for send in quorum.ready().sends] == [1]


def test_an_observer_never_stands() -> None:
    quorum = machine(SomeLog(), voters=(2, 3))
    for now_ms in range(0, 60_000, 500):
        quorum.on_time(now_ms)
        assert all(isinstance(send.request, Fetch) for send in quorum.ready().sends)
    assert quorum.state is State.UNATTACHED


@pytest.mark.parametrize("state", [ElectionState(), ElectionState(7, 2), ElectionState(9, -1, OTHER)])
def test_the_election_state_comes_back_from_its_text(state: ElectionState) -> None:
    assert from_text(to_text(state)) == state


@pytest.mark.parametrize("text", ['{"leaderId": 1, "data_version": 1}', '{"data_version": 2}', "[]", "nonsense"])
def test_another_text_is_no_election_state(text: str) -> None:
    with pytest.raises(ValueError, match=r"election state|Expecting"):
        from_text(text)


SNAPSHOT = SnapshotId(10, 1)


def part_of_snapshot(quorum: Quorum, leader: int, position: int) -> Download:
    """The follower requests the next part from `leader` and gets half of the snapshot; returns the download."""
    ask = next(send for send in quorum.ready().sends if isinstance(send.request, FetchSnapshot))
    assert (ask.to, ask.request.position) == (leader, position)
    part = FetchSnapshotAnswer(ErrorCode.NONE, quorum.epoch, leader, SNAPSHOT, 100, position, 50)
    assert quorum.answered(leader, ask.number, part, 20)
    assert quorum.download is not None
    return quorum.download


def begin_download(quorum: Quorum, leader: int) -> None:
    """A leader of the next epoch answers that the follower needs the snapshot."""
    quorum.begin_epoch(BeginEpoch(quorum.epoch + 1, leader, ME), 10)
    ask = next(send for send in quorum.ready().sends if isinstance(send.request, Fetch))
    answer = FetchAnswer(ErrorCode.NONE, quorum.epoch, leader, snapshot=SNAPSHOT)
    assert not quorum.answered(leader, ask.number, answer, 11)


def test_what_is_left_of_a_dropped_download_does_not_count_for_the_next_one_of_the_same_snapshot() -> None:
    """The first download's last part is stored while the first part of the second is being written."""
    quorum = machine(SomeLog())
    begin_download(quorum, OTHER.id)
    first = part_of_snapshot(quorum, OTHER.id, 0)
    quorum.stored(first, 50, 21, is_whole=False)
    assert part_of_snapshot(quorum, OTHER.id, 50) is first
    begin_download(quorum, THIRD.id)
    second = part_of_snapshot(quorum, THIRD.id, 0)
    quorum.stored(first, 100, 22, is_whole=True)
    quorum.not_stored(first, 23)
    assert quorum.ready().restart_at is None
    assert quorum.download is second
    quorum.stored(second, 50, 24, is_whole=False)
    quorum.stored(part_of_snapshot(quorum, THIRD.id, 50), 100, 25, is_whole=True)
    assert quorum.ready().restart_at == SNAPSHOT


def test_a_snapshot_that_cannot_be_stored_or_read_is_asked_for_again_after_a_long_pause() -> None:
    quorum, again_ms = machine(SomeLog()), Timing().fetch_ms // 2
    begin_download(quorum, OTHER.id)
    quorum.not_stored(part_of_snapshot(quorum, OTHER.id, 0), 30)
    assert quorum.deadline_ms(30) == 30 + again_ms
    begin_download(quorum, THIRD.id)
    ask = next(send for send in quorum.ready().sends if isinstance(send.request, FetchSnapshot))
    failed = FetchSnapshotAnswer(ErrorCode.KAFKA_STORAGE_ERROR, quorum.epoch, THIRD.id, SNAPSHOT)
    assert not quorum.answered(THIRD.id, ask.number, failed, 40)
    assert (quorum.download, quorum.deadline_ms(40)) == (None, 40 + again_ms)


def test_a_voter_does_not_stand_for_election_before_its_log_is_durable() -> None:
    """Its write may fail during the election; it would lead without what its Vote requests claim, and others cut it."""
    log = SomeLog(1, 1, 1)
    log.durable_end_offset = 2
    quorum = machine(log)
    quorum.on_time(500)
    assert quorum.state is State.UNATTACHED
    assert quorum.ready().sends == []
    log.durable_end_offset = 3
    quorum.durable(501)
    quorum.on_time(3000)
    assert quorum.state is State.PROSPECTIVE


def test_a_log_with_other_records_below_the_end_of_a_snapshot_is_restarted_after_it() -> None:
    """The node had led epoch 7 without a majority, downloaded a snapshot, listed it, and was killed."""
    assert is_behind(SomeLog(5, 5, 5, 7, 7), SnapshotId(5, 6))
    assert is_behind(SomeLog(5, 5, 5, 7, 7, 7), SnapshotId(5, 6))
    assert not is_behind(SomeLog(5, 5, 5, 6, 6), SnapshotId(5, 6))
    assert not is_behind(SomeLog(5, 5, 5, 6, 6, 8), SnapshotId(5, 6))
    assert is_behind(SomeLog(5, 5, 5, 6), SnapshotId(5, 6))


def claims(epoch: int, sender: ReplicaKey = OTHER) -> list[object]:
    """Each request that may raise the epoch of the node that receives it."""
    return [
        Vote(epoch, sender, 9, 99, pre_vote=True, voter=ME),
        Vote(epoch, sender, 9, 99, pre_vote=False, voter=ME),
        BeginEpoch(epoch, sender.id, ME),
        EndEpoch(epoch, sender.id, [ME]),
    ]


def error_of(quorum: Quorum, request: object, now_ms: int = 0) -> ErrorCode:
    if isinstance(request, Vote):
        return quorum.vote(request, now_ms).error
    if isinstance(request, BeginEpoch):
        return quorum.begin_epoch(request, now_ms).error
    assert isinstance(request, EndEpoch)
    return quorum.end_epoch(request, now_ms).error


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize(
    ("epoch", "sender", "error"),
    [
        (MAX_EPOCH, OTHER, ErrorCode.INVALID_REQUEST),
        (MOST_EPOCHS + 4, OTHER, ErrorCode.INVALID_REQUEST),
        (4, ReplicaKey(9), ErrorCode.INCONSISTENT_VOTER_SET),
        (4, ReplicaKey(-1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_no_voter_sends_changes_nothing(kind: int, epoch: int, sender: ReplicaKey, error: ErrorCode):
    quorum = machine(SomeLog(3), election=ElectionState(3, 2))
    quorum.ready()
    assert error_of(quorum, claims(epoch, sender)[kind]) is error
    assert (quorum.epoch, quorum.state, quorum.leader_id) == (3, State.FOLLOWER, 2)
    ready = quorum.ready()
    assert (ready.election, ready.role) == (None, None)


@pytest.mark.parametrize("kind", range(4))
def test_a_voter_that_has_missed_many_elections_learns_their_epoch(kind: int):
    quorum = machine(SomeLog(3), election=ElectionState(3, 3))
    assert error_of(quorum, claims(3 + MOST_EPOCHS)[kind]) is ErrorCode.NONE
    assert quorum.epoch == 3 + MOST_EPOCHS


def test_requests_raise_the_epoch_no_faster_than_elections_could():
    quorum = machine(SomeLog(3), election=ElectionState(3, 3))
    last = 3 + MOST_EPOCHS
    assert error_of(quorum, BeginEpoch(last, 2, ME)) is ErrorCode.NONE
    for elections in range(1, 4):
        due_ms = elections * MS_AN_EPOCH
        assert error_of(quorum, BeginEpoch(last + elections, 2, ME), due_ms - 1) is ErrorCode.INVALID_REQUEST
        assert error_of(quorum, BeginEpoch(last + elections, 2, ME), due_ms) is ErrorCode.NONE


def test_a_node_that_has_missed_more_learns_the_epoch_from_a_response():
    quorum = machine(SomeLog(3), election=ElectionState(3, 2))
    [fetch] = quorum.ready().sends
    answer = FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, 3 + 5 * MOST_EPOCHS, 2)
    quorum.answered(2, fetch.number, answer, 1)
    assert (quorum.epoch, quorum.state) == (3 + 5 * MOST_EPOCHS, State.FOLLOWER)


def test_a_candidate_that_is_a_voter_by_a_record_not_yet_here_is_believed():
    """With voters in the log (KIP-853) a new voter may stand before each of the others has the record."""
    log = SomeLog(3)
    log.voters = VotersAt(0, VoterSet.of([Voter(each, {}) for each in (ME, OTHER, THIRD)]))
    quorum = machine(log, election=ElectionState(3))
    new = ReplicaKey(9, UUID(int=9))
    assert quorum.vote(Vote(4, new, 3, 1, pre_vote=False, voter=ME), 0).granted


def test_in_the_last_epoch_no_node_stands_for_election():
    quorum = machine(SomeLog(3), election=ElectionState(MAX_EPOCH))
    for now_ms in range(0, 60_000, 1_000):
        quorum.on_time(now_ms)
    assert (quorum.epoch, quorum.state) == (MAX_EPOCH, State.UNATTACHED)
