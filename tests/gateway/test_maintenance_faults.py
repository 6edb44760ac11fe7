"""Compaction and retention of a running broker over a disk that is full, or fails below LMDB in one of their calls.

The newest record of each key never changes, the broker serves, and the work completes once the disk works again,
without a restart. After a restart the same is read.
"""

import errno
import time

import pytest
from faults import LATE, META_BYTES
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of
from long_form import LONG
from test_retention import SMALL, alter

from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import read_records

SETTINGS = {
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.io.buffer.size": 3000,
    "log.retention.check.interval.ms": 50,
    "log.initial.task.delay.ms": 0,
    "odradek.log.retry.backoff.max.ms": 50,
}
TOPIC = {**SMALL, "retention_ms": "-1", "retention_bytes": "-1"}
KEYS, ROUNDS = 5, 4
NEWEST = {b"k%d" % key: b"%d" % (ROUNDS - 1) * 900 for key in range(KEYS)}
COUNT = KEYS * ROUNDS
FIRST = [1, 2, 4] if LONG else [2]
"""The number of the first call that fails; the next one fails as well."""
FULL = ["write", "pwrite", "writev", "pwritev", "fallocate", "mkdir", "copy"]


@pytest.fixture
def broker(tmp_path, faults):
    arguments = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    broker = ProcessBroker(tmp_path / "data", *arguments)
    broker.start()
    fill(broker)
    yield broker
    if broker.process is not None:
        assert broker.terminate() == 0
    assert "Traceback" not in broker.log()
    assert "the event loop was held up" not in broker.log()


def fill(broker):
    """One record per segment, each key several times."""
    with RawClient(broker.address) as client:
        client.create_topic("t", **TOPIC)
        for number in range(ROUNDS):
            for key in range(KEYS):
                batch = batch_of(b"%d" % number * 900, key=b"k%d" % key, timestamp_ms=now_ms())
                assert client.produce("t", batch).error_code == 0


def now_ms():
    return int(time.time() * 1000)  # noqa: TID251 - retention counts the age of records by the wall clock


def until(is_so):
    """Polls until `is_so()`; a failing test ends by its time-out."""
    while not is_so():
        time.sleep(0.01)


def records(client):
    """All remaining records, read as clients do, with retries while the log is unavailable."""
    found, offset = [], 0
    while True:
        part = client.fetch("t", offset)
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            found, offset = [], offset + 1  # few offsets: a probe below the log start offset
        elif part.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            time.sleep(0.01)
        elif part.error_code == 0 and offset < part.high_watermark:
            batches = list(iter_headers(memoryview(bytes(part.records)), allow_partial_tail=True))
            found += [record for header in batches for record in read_records(bytes(part.records), header)]
            offset = batches[-1].next_offset
        else:
            assert part.error_code == 0
            return found


def newest(client):
    return {record.key: record.value for record in records(client)}


def compacts(client):
    """Waits until only the newest records and those of the last two segments are left, which the cleaner skips."""
    until(lambda: is_compacted(client))


def is_compacted(client):
    return len(records(client)) <= KEYS + 2


def writes(client):
    """Produces as a client does, with retries."""
    while error := client.produce("t", batch_of(b"after", key=b"new", timestamp_ms=now_ms())).error_code:
        assert error == ErrorCode.KAFKA_STORAGE_ERROR


def check_after_a_restart(broker):
    assert broker.terminate() == 0
    broker.start()
    with RawClient(broker.address) as client:
        assert newest(client) == NEWEST | {b"new": b"after"}


@pytest.mark.torture
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("call", ["open", "pwrite", "fdatasync", "rename", "unlink"])
def test_a_call_of_a_compaction_that_fails(broker, faults, call, first, error):
    with RawClient(broker.address) as client:
        faults.fail("/t-0.", calls=[call], error=error, first=first, times=2)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        until(lambda: faults.failed == 2 or is_compacted(client))
        assert faults.failed
        assert newest(client) == NEWEST
        faults.lift()
        compacts(client)
        assert newest(client) == NEWEST
        writes(client)
    check_after_a_restart(broker)


def test_a_compaction_on_a_disk_that_stays_full(broker, faults):
    with RawClient(broker.address) as client:
        faults.fail("/t-0.", calls=FULL, error=errno.ENOSPC)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        until(lambda: faults.failed >= 3)
        assert newest(client) == NEWEST
        assert len(records(client)) == COUNT
        faults.lift()
        compacts(client)
        writes(client)
    lines = [line for line in broker.log().splitlines() if "the file system is full" in line]
    assert len(lines) == 1, lines
    check_after_a_restart(broker)


def test_a_compaction_that_is_decided_on_a_disk_that_is_full_then(broker, faults, tmp_path):
    """The broker is killed between the decision and its completion; the log is read while the disk is still full."""
    [directory] = (tmp_path / "data").glob("t-0.*")
    active = max(directory.glob("*.lmdb")).name
    with RawClient(broker.address) as client:
        faults.fail(f"/{active}", calls=["pwrite", "unlink"], error=errno.ENOSPC)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        until(lambda: faults.failed)
        broker.kill()
    faults.fail("/t-0.", calls=FULL, error=errno.ENOSPC)
    broker.start()
    with RawClient(broker.address) as client:
        assert newest(client) == NEWEST
        faults.lift()
        compacts(client)
        assert newest(client) == NEWEST
        writes(client)
    check_after_a_restart(broker)


def test_a_compaction_whose_end_is_in_doubt(broker, faults, tmp_path):
    """The meta page is written, and LMDB gets an error: the content of the disk decides."""
    [directory] = (tmp_path / "data").glob("t-0.*")
    active = max(directory.glob("*.lmdb")).name
    with RawClient(broker.address) as client:
        faults.fail(f"/{active}", calls=["pwrite"], mode=LATE, times=2, below=META_BYTES)
        alter(client, "t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        until(lambda: faults.failed)
        assert newest(client) == NEWEST
        faults.lift()
        compacts(client)
        writes(client)
    check_after_a_restart(broker)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "unlink"])
def test_a_call_of_retention_that_fails(broker, faults, call, error):
    with RawClient(broker.address) as client:
        faults.fail("/t-0.", calls=[call], error=error, times=2)
        alter(client, "t", retention_bytes="3000")
        until(lambda: faults.failed)
        values = [record.value for record in records(client)]
        assert values == [b"%d" % (number // KEYS) * 900 for number in range(COUNT - len(values), COUNT)]
        faults.lift()
        until(lambda: len(records(client)) <= 4)
        writes(client)
        left = [record.offset for record in records(client)]
    assert broker.terminate() == 0
    broker.start()
    with RawClient(broker.address) as client:
        assert set(left) >= {record.offset for record in records(client)} >= {left[-1]}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_deletion_of_everything_is_repeated_if_no_new_segment_could_be_made(broker, faults, tmp_path, error):
    with RawClient(broker.address) as client:
        faults.fail(f"/{COUNT:020d}.lmdb.new", calls=["open"], error=error, times=1)
        alter(client, "t", retention_ms="1")
        until(lambda: segments(tmp_path) == [f"{COUNT:020d}.lmdb"])
        assert faults.failed == 1
        assert records(client) == []
        writes(client)


def segments(tmp_path):
    return sorted(path.name for path in tmp_path.glob("data/t-0.*/*.lmdb"))
