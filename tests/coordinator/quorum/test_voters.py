"""Voters in the log: the records, the voter set in force, a leader's answers, and how removed voters leave."""

from itertools import repeat
from uuid import UUID

import pytest

from odradek.coordinator.quorum.changes import Change, add_voter, raise_version, remove_voter, update_voter
from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.values import (
    BeginEpoch,
    ElectionState,
    Fetch,
    ReplicaKey,
    State,
    Timing,
    Vote,
    VoteAnswer,
)
from odradek.coordinator.quorum.voter_records import version_record, voters_of, voters_record
from odradek.coordinator.quorum.voters import Voter, VoterHistory, VotersAt, VoterSet
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.records.builder import control_batch
from odradek.wire.records.reader import ControlType
from odradek.wire.schema.codec import encode
from odradek.wire.stored.control_records import KRaftVersionRecord
from tests.coordinator.quorum.test_quorum_states import ME, OTHER, THIRD, SomeLog

NEW = ReplicaKey(4, UUID(int=4))


def voter(key: ReplicaKey) -> Voter:
    return Voter(key, {"CONTROLLER": (f"host-{key.id}", 9093)})


def of(*keys: ReplicaKey) -> VoterSet:
    return VoterSet.of(map(voter, keys))


def machine(log: SomeLog, me: ReplicaKey = ME) -> Quorum:
    return Quorum(me, [-2, -3], log, Timing(), repeat(0.5), ElectionState(1), 0)


def leading(*keys: ReplicaKey) -> tuple[Quorum, SomeLog]:
    """A leader of the voters named in the first record, which has committed a record of its own epoch."""
    log = SomeLog(1)
    log.voters = VotersAt(0, of(*keys))
    quorum = machine(log)
    quorum.on_time(500)
    for now_ms in (501, 502):
        for send in quorum.ready().sends:
            answer = VoteAnswer(ErrorCode.NONE, quorum.epoch, -1, granted=True)
            quorum.answered(send.to, send.number, answer, now_ms)
        quorum.on_time(now_ms)
    assert quorum.state is State.LEADER
    log.epochs.append(quorum.epoch)
    log.durable_end_offset = 2
    acknowledge(quorum, log, *keys)
    assert quorum.high_watermark == 2
    return quorum, log


def acknowledge(quorum: Quorum, log: SomeLog, *keys: ReplicaKey) -> None:
    for key in keys:
        if key != ME:
            quorum.fetch(Fetch(quorum.epoch, key, log.end_offset, log.last_epoch, 0), 600)
    quorum.durable(600)


def append(quorum: Quorum, log: SomeLog, voters: VoterSet) -> None:
    log.epochs.append(quorum.epoch)
    log.durable_end_offset = log.end_offset
    log.voters = VotersAt(log.end_offset - 1, voters, log.voters.voters if log.voters else None)
    quorum.durable(610)


# Records and history


def test_the_records_of_a_set_come_back_from_a_batch() -> None:
    voters = of(ME, OTHER)
    batch = control_batch([version_record(), voters_record(voters)], timestamp_ms=7, base_offset=40, leader_epoch=3)
    assert list(voters_of(batch)) == [VotersAt(41, voters)]


def test_a_version_that_is_not_known_is_not_passed_over() -> None:
    newer = (ControlType.KRAFT_VERSION, bytes(encode(KRaftVersionRecord(kraft_version=2), 0)))
    with pytest.raises(ProtocolError, match=r"kraft\.version is 2"):
        list(voters_of(control_batch([newer], timestamp_ms=7, leader_epoch=3)))


def test_a_log_that_is_cut_goes_back_to_the_set_before() -> None:
    history = VoterHistory()
    for offset, voters in ((3, of(ME)), (8, of(ME, OTHER)), (12, of(OTHER))):
        history.append(VotersAt(offset, voters))
    assert history.latest == VotersAt(12, of(OTHER), of(ME, OTHER))
    assert [history.before(end) for end in (3, 4, 9)] == [None, of(ME), of(ME, OTHER)]
    history.cut(12)
    assert history.latest == VotersAt(8, of(ME, OTHER), of(ME))
    history.cut(2)
    assert history.latest is None


# Changes


def test_a_replica_that_has_caught_up_becomes_a_voter_as_soon_as_its_record_is_there() -> None:
    quorum, log = leading(ME)
    lagging = add_voter(quorum, voter(NEW), 600)
    assert (lagging.error, lagging.voters) == (ErrorCode.REQUEST_TIMED_OUT, None)
    acknowledge(quorum, log, NEW)
    change = add_voter(quorum, voter(NEW), 600)
    assert change == Change(voters=of(ME, NEW))
    append(quorum, log, of(ME, NEW))
    assert quorum.voters == (1, 4)
    assert quorum.high_watermark == 2  # both voters must have it
    acknowledge(quorum, log, NEW)
    assert quorum.high_watermark == 3


def test_one_change_at_a_time() -> None:
    quorum, log = leading(ME, OTHER, THIRD)
    append(quorum, log, of(ME, OTHER))
    assert remove_voter(quorum, OTHER).error is ErrorCode.REQUEST_TIMED_OUT
    acknowledge(quorum, log, OTHER)
    assert remove_voter(quorum, OTHER) == Change(voters=of(ME))


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (lambda quorum: add_voter(quorum, voter(OTHER), 600), ErrorCode.DUPLICATE_VOTER),
        (lambda quorum: add_voter(quorum, voter(OTHER._replace(directory_id=UUID(int=9))), 600), "DUPLICATE_VOTER"),
        (lambda quorum: add_voter(quorum, Voter(NEW, {}, (0, 0)), 600), ErrorCode.INVALID_REQUEST),
        (lambda quorum: remove_voter(quorum, NEW), ErrorCode.VOTER_NOT_FOUND),
        (lambda quorum: remove_voter(quorum, OTHER._replace(directory_id=UUID(int=9))), ErrorCode.VOTER_NOT_FOUND),
        (lambda quorum: update_voter(quorum, voter(NEW)), ErrorCode.VOTER_NOT_FOUND),
        (lambda quorum: update_voter(quorum, Voter(OTHER, {}, (2, 3))), ErrorCode.INVALID_REQUEST),
    ],
    ids=["same", "same-id", "version", "unknown", "other-directory", "update-unknown", "update-version"],
)
def test_what_is_refused(asked, error) -> None:
    quorum, log = leading(ME, OTHER)
    acknowledge(quorum, log, NEW)
    change = asked(quorum)
    assert change.error.name == getattr(error, "name", error)
    assert change.voters is None


def test_the_only_voter_stays() -> None:
    quorum, _ = leading(ME)
    assert remove_voter(quorum, ME).error is ErrorCode.INVALID_REQUEST


def test_a_voter_with_other_endpoints_updates_them() -> None:
    quorum, _ = leading(ME, OTHER)
    assert update_voter(quorum, voter(OTHER)) == Change()
    moved = Voter(OTHER, {"CONTROLLER": ("elsewhere", 1)})
    assert update_voter(quorum, moved) == Change(voters=VoterSet.of([voter(ME), moved]))


def test_a_follower_changes_nothing() -> None:
    log = SomeLog(1)
    log.voters = VotersAt(0, of(ME, OTHER))
    assert remove_voter(machine(log), OTHER).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_voters_of_the_settings_are_named_once_all_directories_are_known() -> None:
    log = SomeLog(1)
    quorum = Quorum(ME, [1, 2], log, Timing(), repeat(0.5), ElectionState(1), 0)
    quorum.on_time(500)
    for _ in range(2):
        for send in quorum.ready().sends:
            quorum.answered(send.to, send.number, VoteAnswer(ErrorCode.NONE, quorum.epoch, -1, granted=True), 501)
    log.epochs.append(quorum.epoch)
    log.durable_end_offset = 2
    endpoints = {node: {"CONTROLLER": (f"host-{node}", 9093)} for node in (1, 2)}
    assert remove_voter(quorum, OTHER).error is ErrorCode.REQUEST_TIMED_OUT
    assert raise_version(quorum, endpoints).error is ErrorCode.REQUEST_TIMED_OUT
    acknowledge(quorum, log, OTHER)
    assert remove_voter(quorum, OTHER).error is ErrorCode.UNSUPPORTED_VERSION
    assert raise_version(quorum, endpoints) == Change(voters=of(ME, OTHER))
    append(quorum, log, of(ME, OTHER))
    assert raise_version(quorum, endpoints).error is ErrorCode.NONE


# Leaving, and changed directories


def test_a_leader_that_is_removed_leads_until_that_is_committed_by_the_others() -> None:
    quorum, log = leading(ME, OTHER, THIRD)
    append(quorum, log, of(OTHER, THIRD))
    acknowledge(quorum, log, OTHER)
    assert (quorum.state, quorum.high_watermark) == (State.LEADER, 2)
    acknowledge(quorum, log, THIRD)
    assert (quorum.state, quorum.high_watermark) == (State.RESIGNED, 3)
    quorum.on_time(10_000)
    assert quorum.state is State.UNATTACHED
    assert quorum.deadline_ms(10_000) is not None  # it searches for the new leader


def test_a_node_with_the_only_record_of_its_removal_starts_elections_again() -> None:
    log = SomeLog(1, 1)
    log.voters = VotersAt(1, of(OTHER), of(ME, OTHER))
    quorum = machine(log)
    quorum.on_time(500)
    [ask] = quorum.ready().sends
    assert (ask.to, ask.request.pre_vote, quorum.state) == (2, True, State.PROSPECTIVE)


def test_a_request_for_the_replica_on_a_lost_disk_is_refused() -> None:
    log = SomeLog()
    quorum = machine(log)
    lost = ME._replace(directory_id=UUID(int=77))
    vote = Vote(5, OTHER, 3, 9, pre_vote=False, voter=lost)
    assert quorum.vote(vote, 1).error is ErrorCode.INVALID_VOTER_KEY
    assert quorum.begin_epoch(BeginEpoch(5, 2, lost), 1).error is ErrorCode.INVALID_VOTER_KEY
    assert quorum.vote(Vote(5, OTHER, 3, 9, pre_vote=False, voter=ME), 1).granted


def test_the_replica_on_a_new_disk_counts_for_nothing() -> None:
    quorum, log = leading(ME, OTHER)
    log.epochs.append(quorum.epoch)
    log.durable_end_offset = 3
    acknowledge(quorum, log, OTHER._replace(directory_id=UUID(int=77)))
    assert quorum.high_watermark == 2
    acknowledge(quorum, log, OTHER)
    assert quorum.high_watermark == 3
