"""The files and the address space that the logs of a store take, and that limits on them do no harm."""

import threading
from pathlib import Path
from uuid import UUID

import pytest
from linux_forms import pages_are_lent

from odradek.partitions.model import LogWrite, PartitionKey
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.reads import PageLease
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.wire.records.batch import iter_headers

_BIG = 2**31 - 1
MB = 1 << 20
ONE_LOG_FILES = 4


def key(index):
    return PartitionKey("many", UUID(int=7), index)


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def opener(**options):
        for store in opened:
            store.close()
        store = LmdbStore(tmp_path / "store", StoreOptions(**options))
        opened.append(store)
        return store

    yield opener
    for store in opened:
        store.close()


def write(log, start, count=1, payload=b"payload", *, sync=False):
    """Commits batches of one offset each."""
    batches = [make_batch(n, payload=payload) for n in range(start, start + count)]
    for batch in batches:
        log.commit([LogWrite((batch,))], sync=sync)
    return batches


def read_everything(log):
    """All of a log, in any number of segments."""
    content, offset = b"", 0
    while part := read_all(log, offset):
        content += part
        offset = [header.next_offset for header in iter_headers(memoryview(part))][-1]
    return content


def files_under(directory):
    """The files of the directory that this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(fd.readlink()))
        except FileNotFoundError:
            continue
    return [path for path in found if path.startswith(f"{directory}/") and ".lmdb" in path]


def mapped_bytes(directory):
    """The address space of the segments' maps."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if len(line) > 5 and line[5].startswith(f"{directory}/")]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


class TestABudgetOfFiles:
    @pytest.mark.parametrize("durable", [True, False])
    def test_more_logs_than_files_are_written_and_read(self, open_store, tmp_path, durable):
        store = open_store(max_open_files=5 * ONE_LOG_FILES)
        logs = [store.open(key(n), LogPolicy(durable=durable)) for n in range(40)]
        for round_ in range(3):
            for log in logs:
                batch = make_batch(round_ * 2, 2)
                log.commit([LogWrite((batch,))], sync=durable)
                assert len(files_under(tmp_path)) <= 5 * ONE_LOG_FILES
        for log in logs:
            assert read_everything(log) == joined([make_batch(n * 2, 2) for n in range(3)])
            assert len(files_under(tmp_path)) <= 5 * ONE_LOG_FILES

    def test_sealed_segments_count_too_but_less(self, open_store, tmp_path):
        store = open_store(max_open_files=9)
        log = store.open(key(0), LogPolicy(segment_bytes=500))
        batches = fill(log, 40)
        for offset in range(40):
            assert read_all(log, offset).startswith(batches[offset].data)
            assert len(files_under(tmp_path)) <= 9

    def test_what_is_lent_stays_open(self, open_store):
        store = open_store(max_open_files=2 * ONE_LOG_FILES, lending_map_bytes=0)
        logs = [store.open(key(n), LogPolicy()) for n in range(6)]
        batches = [fill(log, 1)[0] for log in logs]
        leases = [log.read(0, _BIG, _BIG) for log in logs]
        for lease, batch in zip(leases, batches, strict=True):
            assert bytes(lease.chunks[0]) == batch.data
            lease.release()

    def test_the_state_of_a_log_outlives_its_files(self, open_store):
        store = open_store(max_open_files=ONE_LOG_FILES)
        first, second = (store.open(key(n), LogPolicy()) for n in range(2))
        fill(first, 5)
        before = first.load()
        fill(second, 5)
        assert not first.log.state.segments[-1].is_open
        assert not first.is_hot(4)  # a read would open it, so it must not run in the event loop
        assert first.load() == before
        assert first.truncate(3).log_end_offset == 3

    def test_used_from_many_threads_at_once(self, open_store, tmp_path):
        store = open_store(max_open_files=3 * ONE_LOG_FILES)
        logs = [store.open(key(n), LogPolicy(durable=False)) for n in range(8)]
        failures = []

        def work(log):
            try:
                for n in range(60):
                    log.commit([LogWrite((make_batch(n, 1),))], sync=False)
                    other = logs[(logs.index(log) + n) % len(logs)]
                    other.read(0, _BIG, _BIG).release()
            except BaseException as error:  # noqa: BLE001 - asserted below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(log,)) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        for log in logs:
            assert read_everything(log) == joined([make_batch(n, 1) for n in range(60)])


class TestIdleLogs:
    def test_one_that_was_not_used_since_the_last_call_is_closed(self, open_store, tmp_path):
        store = open_store()
        idle, busy = (store.open(key(n), LogPolicy()) for n in range(2))
        batch = fill(idle, 1)[0]
        store.close_idle()
        fill(busy, 1)
        assert store.close_idle() == 1
        assert len({Path(path).parent for path in files_under(tmp_path)}) == 1, "the directory of the busy one"
        assert read_all(idle, 0) == batch.data

    def test_one_in_page_cache_mode_goes_on_where_it_was(self, open_store):
        store = open_store()
        log = store.open(key(0), LogPolicy(durable=False))
        write(log, 0, 3)
        store.close_idle()
        assert store.close_idle() == 1
        write(log, 3, 3)
        assert len(log.segments()) == 1
        log.close()
        assert store.open(key(0), LogPolicy(durable=False)).load().log_end_offset == 6


class TestAddressSpace:
    def test_a_new_log_takes_a_megabyte(self, open_store, tmp_path):
        store = open_store()
        logs = [store.open(key(n), LogPolicy()) for n in range(20)]
        for log in logs:
            fill(log, 1)
        assert mapped_bytes(tmp_path) < 20 * (MB + 100_000)

    @pytest.mark.parametrize("durable", [True, False])
    def test_it_grows_with_what_is_written_and_stays_one_segment(self, open_store, tmp_path, durable):
        store = open_store()
        log = store.open(key(0), LogPolicy(durable=durable))
        batches = [make_batch(n, 1, payload=bytes([n]) * 700_000) for n in range(60)]
        for batch in batches:
            log.commit([LogWrite((batch,))], sync=durable)
            with_copy = log.read(batch.base_offset, _BIG, _BIG)
            assert bytes(with_copy.chunks[0]) == batch.data
            with_copy.release()
        assert len(log.segments()) == 1
        assert mapped_bytes(tmp_path) <= 256 * MB + 100_000
        assert read_everything(log) == joined(batches)

    @pages_are_lent
    def test_once_pages_are_lent_they_are_always_lent_to_clients_that_give_them_back(self, open_store):
        log = open_store().open(key(0), LogPolicy(durable=False))
        lent = []
        for number in range(60):
            batch = make_batch(number, 1, payload=bytes([number]) * 700_000)
            log.commit([LogWrite((batch,))], sync=False)
            lease = log.read(number, _BIG, _BIG)
            lent.append(isinstance(lease, PageLease))
            lease.release()
        assert lent.index(True) < 10
        assert all(lent[lent.index(True) :])

    @pages_are_lent
    def test_a_client_that_holds_pages_does_not_keep_the_log_from_going_on(self, open_store):
        store = open_store(lending_map_bytes=0)
        log = store.open(key(0), LogPolicy())
        batches = [make_batch(n, 1, payload=bytes([n]) * 100_000) for n in range(60)]
        log.commit([LogWrite((batches[0],))], sync=True)
        lease = log.read(0, _BIG, _BIG)
        for batch in batches[1:]:
            log.commit([LogWrite((batch,))], sync=True)
        assert bytes(lease.chunks[0]) == batches[0].data
        lease.release()
        assert 1 < len(log.segments()) < 4
        assert read_everything(log) == joined(batches)

    def test_a_write_larger_than_the_first_map(self, open_store):
        store = open_store()
        log = store.open(key(0), LogPolicy(segment_bytes=20 * MB))
        batch = make_batch(0, 1, payload=b"x" * 9 * MB)
        log.commit([LogWrite((batch,))], sync=True)
        assert read_all(log, 0) == batch.data

    def test_many_rows_that_a_new_segment_begins_with(self, open_store):
        store = open_store()
        log = store.open(key(0), LogPolicy(segment_bytes=MB))
        rows = dict.fromkeys(range(20000), b"s" * 100)
        log.commit([LogWrite((make_batch(0, 1),), producers=rows)], sync=True)
        log.commit([LogWrite((make_batch(1, 1, payload=b"x" * 900_000),))], sync=True)
        log.commit([LogWrite((make_batch(2, 1, payload=b"x" * 900_000),))], sync=True)
        assert len(log.segments()) > 1
        assert len(log.load().producers) == 20_000
