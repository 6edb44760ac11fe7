"""The tests of `PartitionStore.commit_at_once`. The fixtures are those of `conformance`."""

import pytest

from odradek.partitions.model import LogSnapshot, LogWrite
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store
from odradek.storage_backends.testing.access import fill, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING


class CommittingAtOnce:
    """`commit_at_once` does a complete commit or changes nothing."""

    def test_it_is_a_commit_like_any_other_or_changes_nothing(self, store: Store) -> None:
        """Two logs with the same writes are equal, although one uses `commit_at_once` if possible."""
        policy = LogPolicy(segment_bytes=150, durable=False)
        tried, plain = store.open(KEY, policy), store.open(SIBLING, policy)
        for number in range(12):
            write = LogWrite([make_batch(number)], producers={number % 3: b"%d" % number})
            before = tried.load(), tried.segments(), read_all(tried, 0)
            if not tried.commit_at_once([write]):
                assert (tried.load(), tried.segments(), read_all(tried, 0)) == before
                tried.commit([write], sync=False)
            plain.commit([write], sync=False)
            assert tried.load() == plain.load()
            assert tried.segments() == plain.segments()
            assert read_all(tried, 0) == read_all(plain, 0)

    def test_a_log_start_that_it_moves_is_moved_whole_or_not_at_all(self, store: Store) -> None:
        """Segments below a new log start are deleted by a commit that may wait."""
        log = store.open(KEY, LogPolicy(segment_bytes=100, durable=False))
        log.commit([LogWrite([make_batch(number)]) for number in range(6)], sync=False)
        for start in (3, 6):
            write = LogWrite(log_start_offset=start)
            before = log.load(), log.segments()
            if not log.commit_at_once([write]):
                assert (log.load(), log.segments()) == before
                log.commit([write], sync=False)
            assert log.load().log_start_offset == start

    def test_a_gap_is_refused_as_by_a_commit(self, log: PartitionStore) -> None:
        """A gap is a bug of the caller: ValueError, and nothing is written."""
        with pytest.raises(ValueError, match="does not continue"):
            log.commit_at_once([LogWrite([make_batch(3)])])

    def test_a_durable_log_is_not_committed_at_once_where_that_would_wait(self, store: Store) -> None:
        """A backend that has to sync such a log returns False."""
        log = store.open(KEY, LogPolicy(durable=True))
        if not log.commit_at_once([LogWrite([make_batch(0)])]):
            assert log.load() == LogSnapshot()

    def test_committing_nothing_changes_nothing(self, log: PartitionStore) -> None:
        """Neither with `commit` nor with `commit_at_once`."""
        fill(log, 2)
        before = log.load()
        log.commit([], sync=True)
        log.commit([LogWrite()], sync=False)
        log.commit_at_once([])
        log.commit_at_once([LogWrite()])
        assert log.load() == before
