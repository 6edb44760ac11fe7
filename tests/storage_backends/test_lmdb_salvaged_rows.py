"""After a system crash of a log written without syncs: epochs, aborted transactions and producers, which the sealed
segments and the batches determine.
"""

import os
from dataclasses import replace

import pytest
from system_crash import OPTIONS, after_a_crash, directory, reopened

from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.replication.following import cut
from odradek.partitions.config import LogConfig
from odradek.partitions.follower import follow
from odradek.partitions.in_sync import BrokerStanding, Membership
from odradek.partitions.leader import FollowerFetch, lead
from odradek.partitions.markers import read_end_txn_marker
from odradek.partitions.model import AbortedTransaction, EpochStart, LogWrite
from odradek.partitions.producers import UNKNOWN_OFFSET
from odradek.partitions.results import Appended, AppendOrigin
from odradek.partitions.state import PartitionState
from odradek.partitions.truncation import ProducerRebuild
from odradek.storage_backends.interface import LogPolicy, StoreCorruptError
from odradek.storage_backends.lmdb_segments.layout import segment_name
from odradek.storage_backends.testing.access import contents
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.batch import parse_header
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

pytestmark = pytest.mark.processes  # the store checks a damaged file in a process of its own
ABORTED = AbortedTransaction(7, 1, 3, 4)
HISTORY = (EpochStart(4, 0), EpochStart(5, 6))
CONFIG = LogConfig(transaction_verification=False)
REBUILDING = replace(OPTIONS, producer_rebuilder=ProducerRebuild)
UNTIL_18 = LogPolicy(segment_bytes=20_000, durable=False)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def commit(log, offset, epoch, **more):
    log.commit([LogWrite([make_batch(offset, payload=b"p" * 3000, leader_epoch=epoch)], **more)], sync=False)


def fill_log(log):
    """Epoch 4 to offset 6, epoch 5 from there; segments begin at 0, 6, 12 and 18."""
    log.configure(UNTIL_18)
    for offset in range(20):
        epoch = 4 if offset < 6 else 5
        epochs = [EpochStart(epoch, offset)] if offset in (0, 6) else ()
        commit(log, offset, epoch, epochs=epochs, aborted=[ABORTED] if offset == 3 else ())


def lose(path):
    os.truncate(path, 0)


def salvaged(root, options=OPTIONS):
    """The log's snapshot after the crash, which is the same at the next opening."""
    store, log = reopened(root, options)
    snapshot = log.load()
    store.close()
    store, log = reopened(root, options)
    assert log.load() == snapshot
    store.close()
    return snapshot


class TestSealedSegments:
    @pytest.mark.parametrize(("damage", "end_offset"), [(lambda _: None, 20), (lose, 18)])
    def test_their_epochs_and_aborted_transactions_stay(self, root, damage, end_offset):
        after_a_crash(root, fill_log, damage)
        snapshot = salvaged(root)
        assert snapshot.log_end_offset == end_offset
        assert snapshot.epochs == HISTORY
        assert snapshot.aborted == (ABORTED,)

    def test_an_epoch_that_begins_in_the_active_segment_follows_theirs(self, root):
        def fill_further(log):
            fill_log(log)
            commit(log, 20, 8, epochs=[EpochStart(8, 20)])

        after_a_crash(root, fill_further)
        assert salvaged(root).epochs == (*HISTORY, EpochStart(8, 20))

    def test_a_leader_detects_a_follower_that_has_diverged(self, root):
        after_a_crash(root, fill_log)
        state = PartitionState.restore(salvaged(root), LogConfig())
        leader, _ = lead(state, 7, Membership(1, (1, 2), (1,), 0), lambda each: BrokerStanding(each, is_active=True))
        # broker 2 has records 6 to 8 of epoch 4, where this log has those of epoch 5
        fetch = FollowerFetch(2, 2, 0)
        plan = leader.plan_follower_fetch(fetch, 9, max_bytes=1, current_leader_epoch=7, last_fetched_epoch=4)
        assert plan.diverging == (4, 6)

    def test_a_follower_tells_its_last_epoch(self, root):
        after_a_crash(root, fill_log, lose)
        follower = follow(PartitionState.restore(salvaged(root), LogConfig()), 7, 2)
        assert follower.position.last_fetched_epoch == 5, "without it the leader does not compare the logs"

    def test_an_epoch_that_was_truncated_where_a_segment_ends_does_not_come_back(self, root):
        def fill_and_truncate(log):
            fill_log(log)
            log.truncate(18)
            log.truncate(17)
            log.commit([LogWrite(epochs=[EpochStart(6, 17)])], sync=False)
            log.configure(LogPolicy(segment_bytes=1, durable=False))
            commit(log, 17, 6)
            log.truncate(17)
            commit(log, 17, 7, epochs=[EpochStart(7, 17)])

        after_a_crash(root, fill_and_truncate, lose)
        snapshot = salvaged(root)
        assert snapshot.log_end_offset == 17
        assert snapshot.epochs == HISTORY

    def test_those_of_a_log_that_was_emptied_and_restarted_give_no_rows(self, root):
        """The crash has undone the removal of their files."""
        old = {}

        def fill_and_restart(log):
            fill_log(log)
            old.update((base, (directory(root) / segment_name(base)).read_bytes()) for base in (0, 6, 12))
            log.commit([LogWrite(log_start_offset=50)], sync=False)

        after_a_crash(root, fill_and_restart)
        for base, content in old.items():
            (directory(root) / segment_name(base)).write_bytes(content)
        snapshot = salvaged(root)
        assert (snapshot.log_start_offset, snapshot.log_end_offset) == (50, 50)
        assert (snapshot.epochs, snapshot.aborted) == ((), ())

    @pytest.mark.parametrize("end_offset", [12, 18])
    def test_one_that_compaction_made_has_the_rows_of_those_it_replaces(self, root, end_offset):
        def fill_and_clean(log):
            log.commit([LogWrite(producers={7: b"state"})], sync=False)
            fill_log(log)
            draft = log.draft(0, end_offset)
            draft.add([make_batch(end_offset - 1, leader_epoch=5)])
            draft.seal([])  # the marker of `ABORTED` is removed
            assert log.replace(draft)
            assert log.producers_before(end_offset).rows == {7: b"state"}

        after_a_crash(root, fill_and_clean, lose)
        snapshot = salvaged(root)
        assert snapshot.log_end_offset == 18
        assert (snapshot.epochs, snapshot.aborted) == (HISTORY, ())


def written(log):
    """Write as a leader whose producer 1 is idempotent, and 2 and 3 write in transactions; return all batches.

    0: of 1   1: of 2   2: of 3   3: abort of 2   4: of 2   5: of 1   6: of 2 | 7: abort of 2   8: of 1   9: of 2
    """
    state = PartitionState.restore(log.load(), CONFIG)
    leader, epoch_write = lead(state, 3)
    log.commit([epoch_write], sync=False)
    sent = [of(1, 0), of(2, 0), of(3, 0), abort_of(2), of(2, 1), of(1, 1), of(2, 2), abort_of(2), of(1, 2), of(2, 3)]
    for offset, batch in enumerate(sent):
        log.configure(LogPolicy(segment_bytes=1 if offset == 7 else 100_000, durable=False))
        write = appended(leader, batch)
        log.commit([write], sync=False)
        sent[offset] = bytes(write.batches[0].data)
    assert [each.base_offset for each in log.segments()] == [0, 7]
    return sent


def of(producer_id, sequence):
    records = [SimpleRecord(b"k", b"v" * 2000, 1000)]
    is_transactional = producer_id > 1
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    return build_batch(records, transactional=is_transactional, **fields)


def abort_of(producer_id):
    fields = {"producer_id": producer_id, "producer_epoch": 0}
    return end_transaction_marker(committed=False, coordinator_epoch=0, timestamp_ms=1000, **fields)


def appended(leader, batch):
    records = memoryview(bytearray(batch))
    header = parse_header(records)
    marker = read_end_txn_marker(records, header) if header.is_control else None
    result = leader.append(records, origin=AppendOrigin.COORDINATOR, now_ms=1000, marker=marker)
    assert isinstance(result, Appended), result
    return result.write


def crashed(root, lost_from=None):
    """Write, and crash so that the batches from an offset on are lost; return the snapshot before the crash."""
    batches, before = [], []

    def fill_with_producers(log):
        batches.extend(written(log))
        before.append(log.load())

    def damage(path):
        if lost_from is not None:
            batch = batches[lost_from]  # pages that are no longer used may have it as well
            path.write_bytes(path.read_bytes().replace(batch, batch[:-1] + b"?"))

    after_a_crash(root, fill_with_producers, damage)
    return before[0]


def led(snapshot):
    """A leader of the salvaged log, all of which is committed."""
    state = PartitionState.restore(snapshot, CONFIG)
    leader, _ = lead(state, 4)
    return leader, state


class TestProducers:
    def test_they_and_the_aborted_transactions_are_as_before_if_all_batches_are_kept(self, root):
        before = crashed(root)
        assert before.producers.keys() == {1, 2, 3}
        assert before.aborted == (AbortedTransaction(2, 1, 3, 2), AbortedTransaction(2, 4, 7, 2))
        assert salvaged(root, REBUILDING) == before

    def test_a_broker_rebuilds_them(self, root):
        before = crashed(root)
        store = ProductionEnvironment().open_store(f"lmdb://{root}")
        assert store.open(KEY, LogPolicy(durable=False)).load() == before
        store.close()

    @pytest.mark.parametrize(("end_offset", "opened_at", "last"), [(7, 4, 1), (8, UNKNOWN_OFFSET, 1), (9, -1, 2)])
    def test_they_are_as_of_the_last_batch_that_is_kept(self, root, end_offset, opened_at, last):
        crashed(root, lost_from=end_offset)
        snapshot = salvaged(root, REBUILDING)
        assert snapshot.log_end_offset == end_offset
        producers = PartitionState.restore(snapshot, CONFIG).producers
        assert producers[1].last_sequence == last
        assert producers[2].txn_first_offset == opened_at
        assert producers[3].txn_first_offset == 2

    def test_a_transaction_whose_marker_is_lost_stays_open_until_it_is_aborted(self, root):
        crashed(root, lost_from=7)
        leader, state = led(salvaged(root, REBUILDING))
        assert (state.high_watermark, state.last_stable_offset) == (7, 2)
        assert appended(leader, abort_of(3)).aborted == (AbortedTransaction(3, 2, 7, 4),)
        assert appended(leader, abort_of(2)).aborted == (AbortedTransaction(2, 4, 8, 9),)
        leader.durable(9)
        assert state.last_stable_offset == 9

    def test_a_truncation_restores_those_of_the_batches_that_stay(self, root):
        before = crashed(root)
        store, log = reopened(root, REBUILDING)
        rebuild = ProducerRebuild()
        rebuild.add(memoryview(b"".join(contents(log)[offset] for offset in range(9))))
        left = cut(log, 9)
        assert left.producers == rebuild.rows() != before.producers
        store.close()

    def test_without_a_rebuilder_none_is_known(self, root):
        """Older states would refuse the producers' next batches, and keep transactions open that have ended."""
        before = crashed(root)
        snapshot = salvaged(root)
        assert snapshot.producers == {}
        assert snapshot.aborted == before.aborted[:1]

    def test_a_state_that_cannot_be_read_is_an_error_of_the_store(self, root):
        def fill_with_state(log):
            log.commit([LogWrite(producers={7: b"?"})], sync=False)
            fill_log(log)

        after_a_crash(root, fill_with_state)
        with pytest.raises(StoreCorruptError, match="producer"):
            reopened(root, REBUILDING)
