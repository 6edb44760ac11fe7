"""Rows of records in cases that only a store sees: truncation, restarted logs, compaction concurrent with backfill."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier

import pytest
from sqlalchemy import create_engine, text

from odradek.partitions.model import MAX_RECORDS_WITH_ROWS, LogWrite, StoredBatch
from odradek.storage_backends.beside import LogGoneError
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.sql.columns import statements
from odradek.storage_backends.sql.columns.backfill import SqlBackfill
from odradek.storage_backends.sql.schema import DEAD
from odradek.storage_backends.sql.store import SqlStore
from odradek.storage_backends.testing.keys import KEY
from odradek.wire.records.batch import Codec
from odradek.wire.records.builder import SimpleRecord, build_batch, end_transaction_marker

ON = LogPolicy(segment_bytes=200, columns=True)
OFF = LogPolicy(segment_bytes=200)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else request.getfixturevalue("postgres")


def batch(offset, value, producer=None):
    of = {} if producer is None else {"producer_id": producer, "producer_epoch": 0, "transactional": True}
    return StoredBatch(offset, offset, 0, build_batch([SimpleRecord(b"k", value, 0)], base_offset=offset, **of))


def commit_marker(offset, producer=7):
    data = end_transaction_marker(
        committed=True, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=offset
    )
    return StoredBatch(offset, offset, 0, data)


def write(log, *batches):
    for each in batches:
        log.commit([LogWrite([each])], sync=True)


def shown(url, view="topics.orders"):
    engine = create_engine(url)
    if url.startswith("sqlite"):
        view = "orders"
    with engine.connect() as connection:
        rows = connection.execute(text(f'SELECT "offset", "value" FROM {view} ORDER BY 1')).all()
    engine.dispose()
    return [(offset, bytes(value)) for offset, value in rows]


def test_partitions_that_get_their_first_rows_at_once_make_one_view(url, monkeypatch, caplog):
    both_have_looked = Barrier(2)
    with closing(SqlStore(url)) as store, ThreadPoolExecutor(2) as pool:
        logs = [store.open(key, ON) for key in (KEY, replace(KEY, index=KEY.index + 1))]
        begin = store.database.writing

        def writing(doing):
            if doing.startswith("making the view"):
                both_have_looked.wait()
            return begin(doing)

        monkeypatch.setattr(store.database, "writing", writing)
        for each in [pool.submit(write, log, batch(0, b"a")) for log in logs]:
            each.result()
        assert shown(url) == [(0, b"a"), (0, b"a")]
    assert caplog.messages == []


def test_a_truncation_takes_rows_and_markers(url):
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, ON)
        write(log, batch(0, b"a"), batch(1, b"t", producer=7), commit_marker(2), batch(3, b"b"))
        assert shown(url) == [(0, b"a"), (1, b"t"), (3, b"b")]
        log.truncate(2)
        assert shown(url) == [(0, b"a")]  # the transaction is open again
        write(log, commit_marker(2))
        assert shown(url) == [(0, b"a"), (1, b"t")]
        log.commit([LogWrite(log_start_offset=10)], sync=True)
        write(log, batch(10, b"z"))
        assert shown(url) == [(10, b"z")]


def test_a_draft_without_rows_leaves_a_gap_that_is_filled_in_again(url):
    """Older records are backfilled while a compaction runs that began when the log had no rows."""
    with closing(SqlStore(url)) as store, closing(SqlBackfill(url)) as backfill:
        log = store.open(KEY, OFF)
        write(log, *[batch(offset, b"%d" % offset) for offset in range(8)])
        end = log.segments()[1].end_offset
        draft = log.draft(0, end)
        draft.add([batch(0, b"0")])
        draft.seal([])
        log.configure(ON)
        write(log, batch(8, b"8"))
        while backfill.fill(KEY, 9, ()) is not None:
            pass
        assert [offset for offset, _ in shown(url)] == list(range(9))
        assert log.replace(draft)
        assert [offset for offset, _ in shown(url)] == list(range(end, 9))
        while backfill.fill(KEY, 9, ()) is not None:
            pass
        assert [offset for offset, _ in shown(url)] == [0, *range(end, 9)]


def test_rows_that_compaction_leaves_count_without_markers(url):
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, ON)
        write(log, batch(0, b"t", producer=7), commit_marker(1))
        write(log, *[batch(offset, b"%d" % offset) for offset in range(2, 6)])
        end = log.segments()[-2].end_offset
        draft = log.draft(0, end)
        draft.add([batch(0, b"t", producer=7)])
        draft.seal([])
        assert log.replace(draft)
        assert shown(url)[0] == (0, b"t")
        engine = create_engine(url)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM odradek_markers")).scalar() == 0
        engine.dispose()


def test_a_batch_that_cannot_be_decoded_is_stored_and_has_no_rows(url, caplog):
    garbled = batch(0, b"good").data[:-1] + b"?"
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, ON)
        write(log, StoredBatch(0, 0, 0, garbled), batch(1, b"good"))
        assert [offset for offset, _ in shown(url)] == [1]
        assert log.load().log_end_offset == 2
    assert "offsets 0 to 0 have no rows for SQL" in caplog.text


def test_a_batch_with_an_offset_twice_is_stored_and_has_no_rows(url, caplog):
    """A client can write one: records are not read when they are produced."""
    twice = build_batch([SimpleRecord(b"k", b"v", 0)] * 3, offset_deltas=[0, 0, 2])
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, ON)
        write(log, StoredBatch(0, 2, 0, twice), batch(3, b"good"))
        assert [offset for offset, _ in shown(url)] == [3]
        assert log.load().log_end_offset == 4
    assert "offsets 0 to 2 have no rows for SQL: the offsets of its records do not rise" in caplog.text


def test_a_batch_with_too_many_records_is_stored_and_has_no_rows(url, caplog):
    count = MAX_RECORDS_WITH_ROWS + 1
    many = build_batch([SimpleRecord(None, None, 0)] * count, codec=Codec.GZIP)
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, ON)
        write(log, StoredBatch(0, count - 1, 0, many), batch(count, b"good"))
        assert [offset for offset, _ in shown(url)] == [count]
    assert f"offsets 0 to {count - 1} have no rows for SQL: {count} records are more than" in caplog.text


def test_a_log_without_rows_writes_nothing_about_them(url):
    """The first commit of a thousand partitions without the setting is then a single transaction."""
    with closing(SqlStore(url)) as store:
        log = store.open(KEY, OFF)
        before = store.group.transactions
        write(log, batch(0, b"a"), batch(1, b"b"))
        assert store.group.transactions == before + 2


def test_rows_go_when_the_setting_is_off_at_the_next_start(url):
    with closing(SqlStore(url)) as store:
        write(store.open(KEY, ON), batch(0, b"a"))
        assert shown(url) == [(0, b"a")]
    with closing(SqlStore(url)) as store:
        write(store.open(KEY, OFF), batch(1, b"b"))
        assert shown(url) == []
    with closing(SqlStore(url)) as store:
        write(store.open(KEY, ON), batch(2, b"c"))
        assert shown(url) == [(2, b"c")]


def test_a_log_that_is_deleted_while_the_backfill_waits_for_its_row_is_gone(url, monkeypatch):
    lock = statements.lock

    def lock_late(connection, log):
        connection.execute(text(f"UPDATE odradek_logs SET kind = {DEAD} WHERE id = :log"), {"log": log})
        lock(connection, log)

    with closing(SqlStore(url)) as store, closing(SqlBackfill(url)) as backfill:
        write(store.open(KEY, OFF), batch(0, b"0"))
        monkeypatch.setattr(statements, "lock", lock_late)
        with pytest.raises(LogGoneError):
            backfill.fill(KEY, 1, ())
