"""The fault wrapper: the same seed gives the same faults, a failed call has no effect, and the state after a crash."""

from random import Random

import pytest
from storage_media import InDirectory

from odradek.partitions.model import EpochStart, LogWrite
from odradek.storage_backends.faulty import FaultMix, FaultPlan, FaultyStore, StoreCrashedError
from odradek.storage_backends.interface import LogPolicy, StoreError, StoreFullError
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.testing.access import fill, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING

POLICY = LogPolicy(durable=False)
BROKEN = FaultMix(write_full=0.2, write_error=0.2, read_error=0.3)


@pytest.fixture
def medium():
    return MemoryMedium(power_cuts=True)


def one_run(seed):
    """Tries 60 commits and reads; returns the events, and whether the log matches them."""
    store = FaultyStore(MemoryStore(MemoryMedium()), FaultPlan(Random(seed)))
    log = store.open(KEY, POLICY)
    events, end_offset = [], 0
    for _ in range(60):
        store.plan.mix = BROKEN
        try:
            log.commit([LogWrite([make_batch(end_offset)])], sync=True)
            end_offset += 1
            events.append("kept")
        except StoreError as error:
            events.append(str(error))
        try:
            events.append(len(read_all(log, 0)))
        except StoreError as error:
            events.append(str(error))
        store.plan.mix = FaultMix()
        log = again(store, log)
    assert log.load().log_end_offset == end_offset
    return events


def again(store, log):
    """The log, closed and opened again if it has failed."""
    if not log.failed:
        return log
    with pytest.raises(StoreError, match="closed and opened again"):
        log.load()
    log.close()
    return store.open(KEY, POLICY)


@pytest.mark.parametrize("in_directory", [False, True], ids=["memory", "lmdb"])
@pytest.mark.parametrize(("fault", "kept"), [("write_full", 0), ("write_error", 0), ("write_late", 2)])
def test_after_a_failed_write_the_reopened_log_has_what_was_kept(tmp_path, in_directory, fault, kept):
    medium = InDirectory(tmp_path) if in_directory else MemoryMedium()
    inner = medium.open() if in_directory else MemoryStore(medium)
    store = FaultyStore(inner, FaultPlan(Random(1)))
    log, sibling = store.open(KEY, POLICY), store.open(SIBLING, POLICY)
    fill(log, 3)
    assert store.plan.failed_calls == 0
    setattr(store.plan.mix, fault, 1.0)
    with pytest.raises(StoreError, match="injected"):
        log.commit([LogWrite([make_batch(3)]), LogWrite([make_batch(4)])], sync=True)
    store.plan.mix = FaultMix()
    assert store.plan.failed_calls == 1
    assert log.failed
    for call in (log.load, log.segments, lambda: log.read(0, 3, 9), lambda: log.truncate(1), lambda: fill(log, 1)):
        with pytest.raises(StoreError, match="closed and opened again"):
            call()
    log.close()
    log = store.open(KEY, POLICY)
    assert not log.failed
    assert log.load().log_end_offset == 3 + kept
    fill(log, 2, start=3 + kept)
    fill(sibling, 2)
    store.close()


def test_a_seed_gives_the_same_faults_again():
    assert one_run(1) == one_run(1)
    assert one_run(1) != one_run(2)
    events = " ".join(map(str, one_run(1)))
    assert "no space left" in events
    assert "writing orders-0: I/O error" in events
    assert "reading orders-0: I/O error" in events


def test_a_full_disk_is_distinguished_from_other_errors(medium):
    store = FaultyStore(MemoryStore(medium), FaultPlan(Random(1), FaultMix(write_full=1)))
    with pytest.raises(StoreFullError):
        store.set_properties({"a": "b"})
    assert store.properties() == {}


def test_slowness_goes_through_the_delay_given(medium):
    waits = []
    plan = FaultPlan(Random(1), FaultMix(slow=0.5, max_delay_seconds=2.0), waits.append)
    log = FaultyStore(MemoryStore(medium), plan).open(KEY, POLICY)
    fill(log, 50)
    assert 10 < len(waits) < 40
    assert all(0 <= each <= 2 for each in waits)
    assert len(set(waits)) == len(waits)


class TestPowerCut:
    def run(self, medium, seed):
        plan = FaultPlan(Random(seed))
        store = FaultyStore(MemoryStore(medium), plan)
        log = store.open(KEY, POLICY)
        fill(log, 3)
        log.commit([LogWrite(epochs=[EpochStart(0, 0)], producers={1: b"synced"})], sync=True)
        for offset in range(3, 10):
            log.commit([LogWrite([make_batch(offset)], producers={1: b"%d" % offset})], sync=False)
        store.crash(power_cut=True)
        with pytest.raises(StoreCrashedError):
            log.commit([LogWrite()], sync=True)
        with pytest.raises(StoreCrashedError):
            log.read(0, 1, 1)
        store.close()
        return FaultyStore(MemoryStore(medium), plan).open(KEY, POLICY)

    def test_synced_commits_stay_and_of_the_others_a_prefix(self):
        ends = set()
        for seed in range(40):
            log = self.run(MemoryMedium(power_cuts=True), seed)
            snapshot = log.load()
            end = snapshot.log_end_offset
            ends.add(end)
            assert snapshot.producers == {1: b"synced" if end == 3 else b"%d" % (end - 1)}
            assert snapshot.epochs == (EpochStart(0, 0),)
            fill(log, 1, start=end)
        assert ends == set(range(3, 11))

    def test_a_synced_commit_takes_those_before_it_along(self, medium):
        plan = FaultPlan(Random(1))
        store = FaultyStore(MemoryStore(medium), plan)
        log = store.open(KEY, POLICY)
        log.commit([LogWrite([make_batch(0)])], sync=False)
        log.commit([LogWrite([make_batch(1)])], sync=True)
        log.truncate(1)
        store.open(SIBLING, POLICY)
        store.crash(power_cut=True)
        again = FaultyStore(MemoryStore(medium), plan)
        assert again.open(KEY, POLICY).load().log_end_offset == 1
        assert list(again.partitions()) == [KEY, SIBLING]

    def test_a_commit_in_flight_is_lost_or_kept_by_chance(self):
        ends = set()
        for seed in range(20):
            medium, crashing = MemoryMedium(power_cuts=True), []
            plan = FaultPlan(Random(seed), delay=lambda _, crashing=crashing: crashing[0].crash(power_cut=True))
            store = FaultyStore(MemoryStore(medium), plan)
            crashing.append(store)
            log = store.open(KEY, POLICY)
            fill(log, 1)
            plan.mix = FaultMix(slow=1.0)
            with pytest.raises(StoreCrashedError):
                log.commit([LogWrite([make_batch(1)])], sync=True)
            plan.mix = FaultMix()
            ends.add(FaultyStore(MemoryStore(medium), plan).open(KEY, POLICY).load().log_end_offset)
        assert ends == {1, 2}


def test_over_a_real_store_a_crash_is_that_of_the_process(tmp_path):
    directory = InDirectory(tmp_path)
    inner = directory.open()
    store = FaultyStore(inner, FaultPlan(Random(1)))
    log = store.open(KEY, POLICY)
    log.commit([LogWrite([make_batch(0)])], sync=False)
    store.crash(power_cut=False)
    with pytest.raises(StoreCrashedError):
        log.load()
    inner.close()
    again = FaultyStore(directory.open(), FaultPlan(Random(1)))
    assert again.open(KEY, POLICY).load().log_end_offset == 1
    again.close()
