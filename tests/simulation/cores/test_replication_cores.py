"""The leader, the follower and truncation under every mix of faults, and planted bugs.

`make torture` runs more seeds; `ODRADEK_SEEDS=1000` the seeds 0 to 999, `ODRADEK_SEEDS=5000-6000` others.
"""

from collections import Counter
from functools import cache

import pytest
from replication_disks import Batch
from replication_invariants import Invariant, Oracle, Violation
from replication_mutants import MUTANTS, earlier_registration_joins
from replication_world import DELETING, FAILING, KINDS, Result, World, simulate

from odradek.partitions.follower import Follower
from odradek.partitions.leader import FollowerFetch, Leader
from tests.long_form import rounds, seeds

SHORT = 8
MANY = 1000
MUTANT_SEEDS = 60
"""Every planted bug shows within this many seeds."""

simulated = cache(simulate)


@pytest.mark.torture
def test_every_invariant_holds() -> None:
    for seed in seeds(range(SHORT), MANY):
        result: Result = simulated(seed)
        assert result.violation is None, result.explain()
        assert result.tally["acknowledged"] > 20, result.explain()


@pytest.mark.torture
def test_every_invariant_holds_where_writes_fail() -> None:
    results = [simulate(seed, FAILING) for seed in range(rounds(SHORT, MANY))]
    for result in results:
        assert result.violation is None, result.explain()
    assert sum(result.tally["leading logs opened again"] for result in results) > len(results)


@pytest.mark.torture
def test_every_invariant_holds_where_records_are_deleted() -> None:
    results = [simulate(seed, DELETING) for seed in range(rounds(SHORT, MANY))]
    for result in results:
        assert result.violation is None, result.explain()
    tally = sum((result.tally for result in results), Counter())
    assert tally["deletions inside a batch"] > len(results)
    assert tally["restarts inside a batch"] > 0


def test_the_short_list_meets_every_kind_of_fault() -> None:
    met = sum((simulated(seed).tally for seed in range(SHORT)), Counter())
    assert [kind for kind in KINDS if met[kind] < 3] == []
    assert met["elections"] >= 16
    assert met["truncations"] >= 5
    assert met["proposals answered"] >= 20


def test_a_seed_gives_its_course_again() -> None:
    assert simulate(3).digest == simulated(3).digest
    assert simulated(3).digest != simulated(4).digest


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_by_the_invariant_that_it_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, broken, faults, first = MUTANTS[name]
    plant(monkeypatch)
    found = (simulate(seed, faults).violation for seed in range(first, first + MUTANT_SEEDS))
    assert any(each.invariant is broken for each in found if each is not None), plant.__doc__


def late_fetch_of_a_lost_disk() -> None:
    """Node 3 has fetched everything, loses its disk, and registers again; then its last fetch reaches the leader.

    Raises Violation.
    """
    world = World(1, ())
    world.run(300)
    for producer in world.producers:
        producer.is_done = True
    world.run(600)
    leader, node = world.nodes[1], world.nodes[3]
    assert isinstance(leader.role, Leader)
    assert isinstance(node.role, Follower)
    late, position = FollowerFetch(3, node.epoch, 0), node.role.position
    assert position.offset == leader.state.high_watermark > 20
    node.crash()
    node.lose(5)
    node.start(clean=False)
    world.cut_links.add((3, 1))
    world.run(700)
    assert leader.role.in_sync.isr == {1, 2}
    assert world.controller.now.brokers[3].is_active
    assert leader.image is world.controller.now
    leader.answer_fetch(late, position, lambda _plan, _data: None)
    world.run(800)


def test_a_late_fetch_of_an_earlier_registration_is_refused() -> None:
    late_fetch_of_a_lost_disk()


def test_without_the_check_of_registrations_the_late_fetch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier_registration_joins(monkeypatch)
    with pytest.raises(Violation) as broken:
        late_fetch_of_a_lost_disk()
    assert broken.value.invariant is Invariant.IN_SYNC_HOLDS


LOG: list[Batch] = [(offset, offset + 1, bytes([offset])) for offset in range(4)]


def two_epochs() -> Oracle:
    """The leader of epoch 1 has committed two batches, the one of epoch 2 two more."""
    oracle = Oracle()
    assert oracle.commits("node 1", 1, 2, LOG[:2], 0) == 2
    assert oracle.commits("node 3", 2, 4, LOG[:], 2) == 4
    return oracle


@pytest.mark.parametrize(("epoch", "log"), [(1, LOG[:2]), (2, LOG), (3, LOG)])
def test_a_leader_may_lack_what_a_later_one_has_committed(epoch: int, log: list[Batch]) -> None:
    two_epochs().leads("node 2", epoch, log)


@pytest.mark.parametrize(
    ("epoch", "log"), [(1, LOG[:1]), (1, []), (1, [LOG[0], (1, 2, b"other")]), (2, LOG[:3]), (3, LOG[:2])]
)
def test_a_leader_that_lacks_what_was_committed_up_to_its_epoch_is_found(epoch: int, log: list[Batch]) -> None:
    with pytest.raises(Violation, match=r"^LEADER_COMPLETE: node 2 ends at"):
        two_epochs().leads("node 2", epoch, log)
