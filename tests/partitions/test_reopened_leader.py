"""A leader whose log is reopened, without what was not durable, below what a follower has reported."""

from partition_fakes import NOW_MS, data_batch

from odradek.partitions.config import LogConfig
from odradek.partitions.in_sync import BrokerStanding, IsrProposal, Membership
from odradek.partitions.leader import FollowerFetch, Leader, lead
from odradek.partitions.model import EpochStart, LogSnapshot
from odradek.partitions.results import Appended, AppendOrigin, FetchPlan
from odradek.partitions.state import PartitionState

EPOCH = 5


def elected(isr: tuple[int, ...], *, min_insync: int = 1) -> tuple[Leader, LogConfig]:
    """A leader that has stored ten records, and still stores five that it fetched in the epoch before its own."""
    config = LogConfig(min_insync_replicas=min_insync, replica_lag_time_max_ms=100)
    log = PartitionState.restore(LogSnapshot(log_end_offset=10, epochs=(EpochStart(4, 0),)), config)
    log.log_end_offset = 15
    standings = {each: BrokerStanding(each * 10, is_active=True) for each in (1, 2, 3)}
    leader, _ = lead(log, EPOCH, Membership(1, (1, 2, 3), isr, 7), standings.get)
    return leader, config


def fetch(leader: Leader, broker_id: int, offset: int) -> tuple[FetchPlan, IsrProposal | None]:
    follower = FollowerFetch(broker_id, broker_id * 10, 0)
    plan = leader.plan_follower_fetch(follower, offset, max_bytes=1, current_leader_epoch=EPOCH, last_fetched_epoch=4)
    assert isinstance(plan, FetchPlan)
    _, proposal = leader.record_fetch(follower, plan, 0)
    return plan, proposal


def reopened(leader: Leader, config: LogConfig) -> Leader:
    """The leader after the write of the five records has failed."""
    restored = PartitionState.restore(LogSnapshot(log_end_offset=10, epochs=(EpochStart(4, 0),)), config)
    restored.raise_high_watermark(leader.state.high_watermark)
    return leader.over(restored)[0]


def test_what_a_follower_has_of_lost_records_does_not_commit_those_written_in_their_place() -> None:
    leader, config = elected((1, 2))
    plan, _ = fetch(leader, 2, 15)
    assert plan.diverging is None
    leader = reopened(leader, config)
    for _ in range(5):
        result = leader.append(data_batch(), origin=AppendOrigin.CLIENT, now_ms=NOW_MS, all_in_sync=True)
        assert isinstance(result, Appended)
    leader.durable(15)
    assert leader.state.high_watermark == 10
    plan, _ = fetch(leader, 2, 15)
    assert plan.diverging is not None


def test_a_follower_joins_at_the_end_of_the_reopened_log() -> None:
    """Not only at the offset at which the epoch began, which the log may never reach while acks=all is refused."""
    leader, config = elected((1,), min_insync=2)
    leader = reopened(leader, config)
    assert leader.is_short
    plan, proposal = fetch(leader, 2, 10)
    assert plan.diverging is None
    assert proposal is not None
