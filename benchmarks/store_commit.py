"""Time and CPU of the LMDB store's commits: `python -m benchmarks.store_commit [--directory DIR] [--seconds N]`.

Prints one line per measurement. Choose a directory on the disk of interest: syncs take most of the time.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from odradek.partitions.model import LogWrite, PartitionKey, StoredBatch
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.batches import make_batch

_ID = UUID("5b9fbb8e-6d4b-4fda-9a3b-8e7b5b4f7c11")
_WRITERS = 16


class Writer:
    """Appends batches of one size to one partition."""

    def __init__(self, log: PartitionStore, size_bytes: int) -> None:
        self.log = log
        self.offset = log.load().log_end_offset
        self.data = make_batch(0, payload=b"x" * size_bytes).data

    def commit(self, batches: int = 1, *, sync: bool = True) -> None:
        """Append `batches` in one commit."""
        first, self.offset = self.offset, self.offset + batches
        made = [StoredBatch(offset, offset, offset, self.data) for offset in range(first, self.offset)]
        self.log.commit([LogWrite(made, producers={1: b"s" * 60})], sync=sync)


def report(name: str, count: float, seconds: float, cpu_seconds: float, unit: str = "commits") -> None:
    """Print one measurement."""
    rate, cpu_us = count / seconds, cpu_seconds / count * 1e6
    sys.stdout.write(
        f"{name:<58} {rate:>10,.0f} {unit}/s {seconds / count * 1e6:>9,.1f} us each, CPU {cpu_us:,.1f} us\n"
    )
    sys.stdout.flush()


def measure(name: str, seconds: float, action: Callable[[], int]) -> None:
    """Call `action`, which returns the number of operations it did, for about `seconds`, and report the rate."""
    count, start, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        count += action()
    report(name, count, time.perf_counter() - start, time.process_time() - cpu)


def open_logs(store: Store, topic: str, count: int, policy: LogPolicy) -> list[PartitionStore]:
    """Open `count` partitions of a topic."""
    return [store.open(PartitionKey(topic, _ID, index), policy) for index in range(count)]


def commits(store: Store, seconds: float) -> None:
    """Measure commits to one partition: several sizes, with and without sync."""
    for size_bytes in (100, 16_384, 1_000_000):
        for durable in (True, False):
            (log,) = open_logs(store, f"one-{size_bytes}-{durable}", 1, LogPolicy(durable=durable))
            writer = Writer(log, size_bytes)
            name = f"1 partition, {size_bytes:,} B, {'sync' if durable else 'no sync'}"
            measure(name, seconds, lambda w=writer, d=durable: (w.commit(sync=d), 1)[1])
    (log,) = open_logs(store, "group", 1, LogPolicy())
    writer = Writer(log, 16_384)
    measure("1 partition, 16 batches of 16 KB a commit, sync (batches)", seconds, lambda: (writer.commit(16), 16)[1])


def parallel(store: Store, seconds: float) -> None:
    """Measure commits to sixteen partitions, one after the other and in parallel."""
    writers = [Writer(log, 16_384) for log in open_logs(store, "many", _WRITERS, LogPolicy())]

    def in_turn() -> int:
        for writer in writers:
            writer.commit()
        return len(writers)

    measure("16 partitions, 16 KB, sync, one after the other", seconds, in_turn)
    with ThreadPoolExecutor(_WRITERS) as pool:

        def at_once() -> int:
            deadline = time.perf_counter() + seconds / 2
            return sum(pool.map(lambda writer: _until(deadline, writer), writers))

        measure("16 partitions, 16 KB, sync, pool of 16", seconds, at_once)


def _until(deadline: float, writer: Writer) -> int:
    count = 0
    while time.perf_counter() < deadline:
        writer.commit()
        count += 1
    return count


def rolls(store: Store, seconds: float) -> None:
    """Measure commits that each roll the segment, with few and with many producers."""
    for producers in (1, 10_000):
        (log,) = open_logs(store, f"roll-{producers}", 1, LogPolicy(segment_bytes=1))
        log.commit([LogWrite(producers=dict.fromkeys(range(producers), b"s" * 60))], sync=True)
        writer = Writer(log, 16_384)
        measure(f"commit and roll, 16 KB, sync, {producers:,} producers", seconds, lambda w=writer: (w.commit(), 1)[1])


def reads(store: Store, seconds: float) -> None:
    """Measure reads of one batch and of a megabyte."""
    (log,) = open_logs(store, "reads", 1, LogPolicy(durable=False))
    writer = Writer(log, 16_384)
    for _ in range(2000):
        writer.commit(sync=False)
    for max_bytes in (1, 1 << 20):

        def read(limit: int = max_bytes) -> int:
            for offset in range(1000, 1100):
                log.read(offset, 1 << 60, limit).release()
            return 100

        measure(f"read and release, up to {max_bytes:,} B (reads)", seconds, read)


def many_partitions(url: str, count: int) -> None:
    """Create and then open `count` partitions; measures time, memory and open files."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for what in ("create", "open again"):
        start, cpu = time.perf_counter(), time.process_time()
        store = open_store(url)
        opened = time.perf_counter()
        open_logs(store, "thousand", count, LogPolicy())
        report(
            f"{what} {count:,} partitions", count, time.perf_counter() - opened, time.process_time() - cpu, "partitions"
        )
        if what == "create":
            files = len(list(Path("/proc/self/fd").iterdir()))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            sys.stdout.write(f"{'':<58} {files:>10,} files open, {memory / count:,.1f} KB of memory each\n")
        store.close()
        sys.stdout.write(f"{'':<58} {time.perf_counter() - start:>10,.2f} s in all\n")


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="the directory for the store (default: a temporary directory)")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each measurement")
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(0.0005)
    directory = Path(tempfile.mkdtemp(prefix="store-commit-", dir=arguments.directory))
    try:
        store = open_store(f"lmdb://{directory}/store")
        for part in (commits, parallel, rolls, reads):
            part(store, arguments.seconds)
        store.close()
        many_partitions(f"lmdb://{directory}/many", arguments.partitions)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
