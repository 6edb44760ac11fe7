"""The ISR on a leader: joining, leaving, and the effect on the high watermark and acks=all."""

from collections.abc import Sequence

import pytest
from partition_fakes import NOW_MS, data_batch

from odradek.partitions.config import LogConfig
from odradek.partitions.in_sync import BrokerStanding, IsrDecision, IsrMember, IsrProposal, Membership
from odradek.partitions.leader import FollowerFetch, Leader, lead
from odradek.partitions.model import EpochStart, LogSnapshot
from odradek.partitions.results import NO_LEADER_EPOCH, Appended, AppendOrigin, FetchPlan, Isolation, Rejected
from odradek.partitions.state import PartitionState
from odradek.wire.errors import ErrorCode

LAG_MS = 100
EPOCH = 4


class Three:
    """The leader of three replicas: broker 1, with a log of ten records in epoch 3."""

    def __init__(self, isr: Sequence[int] = (1, 2, 3), min_insync: int = 1) -> None:
        config = LogConfig(min_insync_replicas=min_insync, replica_lag_time_max_ms=LAG_MS)
        snapshot = LogSnapshot(log_end_offset=10, epochs=(EpochStart(3, 0),))
        self.log = PartitionState.restore(snapshot, config)
        self.standings = {each: BrokerStanding(each * 10, is_active=True) for each in (1, 2, 3)}
        self.leader: Leader = lead(self.log, EPOCH, Membership(1, (1, 2, 3), isr, 7), self.standings.get)[0]

    def plan(self, broker_id: int, offset: int, broker_epoch: int | None = None, epoch: int = EPOCH, last: int = 3):
        epoch_of_broker = broker_id * 10 if broker_epoch is None else broker_epoch
        follower = FollowerFetch(broker_id, epoch_of_broker, 0)
        plan = self.leader.plan_follower_fetch(
            follower, offset, max_bytes=1, current_leader_epoch=epoch, last_fetched_epoch=last
        )
        return follower, plan

    def fetch(self, broker_id: int, offset: int, now_ms: int = 0, **more) -> tuple[bool, IsrProposal | None]:
        follower, plan = self.plan(broker_id, offset, **more)
        assert isinstance(plan, FetchPlan), plan
        return self.leader.record_fetch(follower, plan, now_ms)

    def append(self, **more):
        result = self.leader.append(data_batch(), origin=AppendOrigin.CLIENT, now_ms=NOW_MS, **more)
        if isinstance(result, Appended):
            self.leader.durable(self.log.log_end_offset)
        return result

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark


def proposed(proposal: IsrProposal | None) -> IsrProposal:
    assert proposal is not None
    return proposal


def test_nothing_is_committed_before_every_in_sync_replica_has_fetched_in_this_epoch() -> None:
    three = Three()
    assert three.high_watermark == 0
    three.fetch(2, 10)
    assert three.high_watermark == 0
    assert three.fetch(3, 6) == (True, None)
    assert three.high_watermark == 6


def test_a_follower_that_has_diverged_has_not_come_anywhere() -> None:
    three = Three(isr=(1, 2))
    follower, plan = three.plan(2, 12, last=9)
    assert isinstance(plan, Rejected), "of an epoch that is not known here nothing can be said"
    three.log.epochs.assign(2, 0)
    follower, plan = three.plan(2, 4, last=2)
    three = Three(isr=(1, 2))
    three.log.epochs.truncate_start(5)
    follower, plan = three.plan(2, 9, last=2)
    assert isinstance(plan, FetchPlan)
    assert plan.diverging == (2, 5)
    assert three.leader.record_fetch(follower, plan, 0) == (False, None)
    assert not three.leader.in_sync.remotes[2].has_fetched


def test_a_follower_joins_once_it_has_come_to_where_the_epoch_began() -> None:
    """Reaching the high watermark is not enough: it may be behind that of the previous leader."""
    three = Three(isr=(1,))
    three.log.high_watermark = 4
    assert three.fetch(2, 9)[1] is None
    proposal = proposed(three.fetch(2, 10)[1])
    assert proposal.members == (IsrMember(1, 10), IsrMember(2, 20))
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.isr) == (EPOCH, 7, (1, 2))
    assert three.fetch(3, 10)[1] is None, "one proposal at a time"


@pytest.mark.parametrize(
    "standing",
    [None, BrokerStanding(20, is_active=False), BrokerStanding(19, is_active=True)],
)
def test_a_follower_joins_only_from_the_present_registration_of_an_active_broker(
    standing: BrokerStanding | None,
) -> None:
    three = Three(isr=(1,))
    del three.standings[2]
    if standing is not None:
        three.standings[2] = standing
    assert three.fetch(2, 10)[1] is None


def test_the_fetch_of_an_earlier_registration_is_refused() -> None:
    three = Three()
    three.standings[2] = BrokerStanding(25, is_active=True)
    for broker_epoch in (20, -1):
        _, plan = three.plan(2, 10, broker_epoch)
        assert isinstance(plan, Rejected)
        assert plan.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [
        (9, EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, NO_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (2, EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_without_a_place_here_is_refused(broker_id: int, epoch: int, error: ErrorCode) -> None:
    _, plan = Three().plan(broker_id, 10, epoch=epoch)
    assert isinstance(plan, Rejected)
    assert plan.error is error


def test_the_high_watermark_counts_a_proposed_member_until_the_controller_has_answered() -> None:
    three = Three(isr=(1,))
    proposal = proposed(three.fetch(2, 10)[1])
    three.append()
    three.leader.advance_at(LAG_MS * 5)
    assert three.high_watermark == 10, "broker 2 may be in sync by now, and does not have the record"
    assert three.leader.answered(proposal, ErrorCode.REQUEST_TIMED_OUT) == (False, True)
    assert three.high_watermark == 10
    assert three.leader.answered(proposal, ErrorCode.INELIGIBLE_REPLICA) == (True, False)
    assert three.high_watermark == 11


def test_a_replica_that_leaves_counts_until_the_controller_has_answered() -> None:
    three = Three()
    three.fetch(2, 10, LAG_MS)
    proposal = proposed(three.leader.shrinking(LAG_MS + 1))
    assert proposal.members == (IsrMember(1, 10), IsrMember(2, 20))
    assert proposal.reasons == ("replica 3 leaves, which has not fetched for 101 ms",)
    assert three.high_watermark == 0
    assert three.leader.answered(proposal, IsrDecision(EPOCH, (1, 2), 8)) == (True, False)
    assert three.high_watermark == 10


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_an_answer_that_the_view_is_old_leaves_the_proposal_until_the_metadata_comes(error: ErrorCode) -> None:
    three = Three(isr=(1,))
    proposal = proposed(three.fetch(2, 10)[1])
    three.append()
    three.leader.advance_at(LAG_MS * 5)
    assert three.leader.answered(proposal, error) == (False, False)
    assert three.fetch(3, 11)[1] is None, "it is under way still"
    assert three.high_watermark == 10
    assert three.leader.assign(Membership(1, (1, 2, 3), (1,), 8))
    assert three.high_watermark == 11


def test_the_echo_of_an_accepted_proposal_does_not_end_the_next_one() -> None:
    three = Three(isr=(1,))
    proposal = proposed(three.fetch(2, 10)[1])
    three.leader.answered(proposal, IsrDecision(EPOCH, (1, 2), 8))
    following = proposed(three.fetch(3, 10)[1])
    assert (following.isr, following.partition_epoch) == ((1, 2, 3), 8)
    three.leader.assign(Membership(1, (1, 2, 3), (1, 2), 8))
    three.append()
    three.fetch(2, 11)
    three.leader.advance_at(LAG_MS * 5)
    assert three.high_watermark == 10, "broker 3 counts, as the controller may have let it in"


def test_an_answer_that_comes_after_newer_metadata_changes_nothing() -> None:
    three = Three(isr=(1,))
    proposal = proposed(three.fetch(2, 10)[1])
    three.leader.assign(Membership(1, (1, 2, 3), (1, 3), 9))
    assert three.leader.answered(proposal, IsrDecision(EPOCH, (1, 2), 8)) == (False, False)
    assert three.leader.in_sync.isr == {1, 3}


def test_a_follower_that_is_always_a_little_behind_stays() -> None:
    three = Three(isr=(1, 2))
    three.append()
    for now_ms in range(0, LAG_MS * 4, LAG_MS // 2):
        three.append()
        three.fetch(2, three.log.log_end_offset - 1, now_ms, last=EPOCH)
        assert three.leader.shrinking(now_ms + LAG_MS // 2) is None


def test_a_follower_that_fetches_and_falls_behind_leaves() -> None:
    three = Three(isr=(1, 2))
    three.append()
    three.append()
    for now_ms in range(0, LAG_MS + 1, 10):
        three.fetch(2, 11, now_ms, last=EPOCH)
    assert proposed(three.leader.shrinking(LAG_MS + 1)).isr == (1,)


def test_the_high_watermark_waits_for_one_that_is_about_to_join_but_not_for_ever() -> None:
    three = Three(isr=(1,))
    three.standings[2] = BrokerStanding(20, is_active=True)
    refused = proposed(three.fetch(2, 10)[1])
    three.leader.answered(refused, ErrorCode.INELIGIBLE_REPLICA)
    three.append()
    assert three.high_watermark == 10
    three.standings[2] = BrokerStanding(20, is_active=False)
    assert three.leader.advance_at(1), "a fenced broker joins nothing"
    three.standings[2] = BrokerStanding(20, is_active=True)
    three.append()
    assert three.high_watermark == 11
    assert three.leader.advance_at(LAG_MS + 1)
    assert three.high_watermark == 12


def test_below_min_insync_replicas_nothing_is_committed_and_acks_all_is_refused() -> None:
    three = Three(isr=(1, 2), min_insync=2)
    three.fetch(2, 10)
    assert isinstance(three.append(all_in_sync=True), Appended)
    proposal = proposed(three.leader.shrinking(LAG_MS + 1))
    three.leader.answered(proposal, IsrDecision(EPOCH, (1,), 8))
    refused = three.append(all_in_sync=True)
    assert isinstance(refused, Rejected)
    assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert isinstance(three.append(), Appended), "acks=1 goes in"
    assert three.high_watermark == 10, "and is not committed"
    joined = proposed(three.fetch(2, 12, last=EPOCH)[1])
    assert three.high_watermark == 10, "who is proposed does not make the ISR larger"
    three.leader.answered(joined, IsrDecision(EPOCH, (1, 2), 9))
    assert three.high_watermark == 12


def test_min_insync_replicas_never_means_more_than_there_are() -> None:
    log = PartitionState.restore(LogSnapshot(log_end_offset=5), LogConfig(min_insync_replicas=3))
    leader, _ = lead(log, 0)
    assert not leader.is_short
    assert log.high_watermark == 5


def test_a_replica_that_a_reassignment_adds_is_known_from_then_on() -> None:
    three = Three(isr=(1, 2))
    assert isinstance(three.plan(5, 0)[1], Rejected)
    three.standings[5] = BrokerStanding(50, is_active=True)
    three.leader.assign(Membership(1, (1, 2, 3, 5), (1, 2), 8))
    three.fetch(2, 10)
    assert proposed(three.fetch(5, 10)[1]).isr == (1, 2, 5)


def test_list_offsets_waits_until_the_high_watermark_is_where_the_epoch_began() -> None:
    three = Three(isr=(1, 2))
    answer = three.leader.list_offset(-1, Isolation.READ_UNCOMMITTED)
    assert isinstance(answer, Rejected)
    assert answer.error is ErrorCode.OFFSET_NOT_AVAILABLE
    three.fetch(2, 10)
    assert three.leader.list_offset(-1, Isolation.READ_UNCOMMITTED).offset == 10
