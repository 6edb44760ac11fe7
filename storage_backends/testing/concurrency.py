"""Readers concurrent with a writer, in threads: everything that they read has to be complete, in order, and unchanged
while leased.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, OffsetNotInStoreError, PartitionStore, ReadLease
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING
from odradek.storage_backends.testing.medium import StoreFactory
from odradek.wire.records.batch import check_crc, iter_headers

_COMMITS = 150
_READERS = 3
_HELD_LEASES = 4
_BIG = 2**31 - 1


def check_readers_beside_writer(factory: StoreFactory) -> None:
    """Read at random during commits, rolls and deletions, and hold leases meanwhile."""
    medium = factory()
    store = medium.open()
    log = store.open(KEY, LogPolicy(segment_bytes=20_000))
    done = Event()
    with ThreadPoolExecutor(_READERS + 1) as pool:
        seeds = range(_READERS)
        readers = [pool.submit(_read_until, log, done, Random(seed)) for seed in seeds]  # noqa: S311
        writer = pool.submit(_write, log)
        try:
            writer.result()
        finally:
            done.set()
        assert sum(reader.result() for reader in readers) > 0
    store.close()
    medium.destroy()


def _write(log: PartitionStore, *, keep_offsets: int = 400) -> None:
    end_offset = 0
    for number in range(_COMMITS):
        batches = [make_batch(end_offset + each, payload=bytes([each]) * 300) for each in range(5)]
        end_offset += len(batches)
        start_offset = end_offset - keep_offsets if number % 10 == 0 else None
        log.commit([LogWrite(batches, log_start_offset=start_offset)], sync=False)


def _read_until(log: PartitionStore, done: Event, random: Random) -> int:
    """Return how many reads were checked."""
    held: list[tuple[ReadLease, bytes]] = []
    count = 0
    while not done.is_set() or not count:
        segments = log.segments()
        known_end_offset = segments[-1].end_offset
        offset = random.randint(segments[0].base_offset, known_end_offset)
        try:
            lease = log.read(offset, _BIG, random.choice([100, 3_000, 100_000]))
        except OffsetNotInStoreError:
            assert offset < log.segments()[-1].end_offset  # so it is below the log start by now
            continue
        held.append((lease, _checked(lease, offset, known_end_offset)))
        count += 1
        if len(held) > _HELD_LEASES:
            _release(*held.pop(0))
    for each in held:
        _release(*each)
    return count


def _checked(lease: ReadLease, offset: int, known_end_offset: int) -> bytes:
    content = b"".join(lease.chunks)
    headers = list(iter_headers(content))
    for header in headers:
        check_crc(content, header)
    assert [header.base_offset for header in headers] == list(range(offset, offset + len(headers)))
    assert headers or offset >= known_end_offset
    return content


def _release(lease: ReadLease, content: bytes) -> None:
    assert b"".join(lease.chunks) == content
    lease.release()


def check_partitions_in_parallel(factory: StoreFactory) -> None:
    """Write two partitions from two threads."""
    medium = factory()
    store = medium.open()
    logs = [store.open(key, LogPolicy(segment_bytes=20_000)) for key in (KEY, SIBLING)]
    _in_threads([lambda log=log: _write(log, keep_offsets=_BIG) for log in logs])
    assert [log.load().log_end_offset for log in logs] == [_COMMITS * 5] * 2
    store.close()
    medium.destroy()


def _in_threads(calls: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()
