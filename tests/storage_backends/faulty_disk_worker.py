"""Runs under the shim in a separate process: a store's operation fails at one system call, then the log is reopened.

    python faulty_disk_worker.py DIRECTORY SCENARIO short|long

For every system call that the operation makes in a clean run (in the short form for some of them), and for each kind of
failure, the operation is run on a fresh store with that call failing once. Whatever it returns, the log must then
recover without a restart, have all that was acknowledged, and accept records; another log must serve throughout; and a
store that is opened again must have the same.
"""

import errno
import itertools
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from faults import CALLS, ERROR, LATE, LATE_ONCE, SHORT, WRITES, Faults

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, PartitionStore, StoreError
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY, SIBLING
from odradek.wire.records.batch import iter_headers

OPTIONS = StoreOptions(map_slack_bytes=4 << 20)
POLICY = LogPolicy(segment_bytes=3000)
UNSYNCED = LogPolicy(segment_bytes=3000, durable=False)
FILLED = 20
SHORT_FORM_CALLS = 6
KINDS = (
    (ERROR, errno.EIO, CALLS),
    (ERROR, errno.ENOSPC, CALLS),
    (SHORT, 0, WRITES),
    (LATE, errno.EIO, CALLS),
    (LATE_ONCE, errno.EIO, CALLS),
)


def batch_at(offset: int):
    return make_batch(offset, max_timestamp_ms=1000 + offset, payload=b"%04d" % offset * 100)


class Bench:
    """A store with a log of `FILLED` batches in several segments, and another log."""

    def __init__(self, root: Path, policy: LogPolicy) -> None:
        self.root, self.policy = root, policy
        self.store = LmdbStore(root, OPTIONS)
        self.log = self.store.open(KEY, policy)
        self.sibling = self.store.open(SIBLING, POLICY)
        self.end = self.log.load().log_end_offset
        self.append(FILLED - self.end)
        self.truncated = False

    def append(self, count: int) -> None:
        for _ in range(count):
            self.commit(1)

    def commit(self, count: int, **more) -> None:
        batches = [batch_at(self.end + n) for n in range(count)]
        self.log.commit([LogWrite([batch], **more) for batch in batches], sync=self.policy.durable)
        self.end += count

    def open_again(self) -> None:
        with suppress(StoreError):
            self.log.close()
        self.log = self.store.open(KEY, self.policy)


def offsets(log: PartitionStore) -> list[int]:
    """The offsets of a log, each checked against what was written there."""
    snapshot, found = log.load(), []
    offset = snapshot.log_start_offset
    while offset < snapshot.log_end_offset:
        lease = log.read(offset, snapshot.log_end_offset, 10_000)
        data = b"".join(lease.chunks)
        lease.release()
        headers = list(iter_headers(data))
        if not headers:
            break
        for header in headers:
            if header.base_offset >= snapshot.log_start_offset:
                assert data[header.position : header.end_position] == batch_at(header.base_offset).data
                found.append(header.base_offset)
        offset = headers[-1].next_offset
    return found


class Scenario(NamedTuple):
    """`prepare` returns the operation that runs with a failing call.

    `may_be(before)` lists the contents allowed after it.
    """

    prepare: Callable[[Bench], Callable[[], object]]
    may_be: Callable[[list[int]], list[list[int]]]
    policy: LogPolicy = POLICY


def _commit(bench: Bench):
    return lambda: bench.commit(1)


def _roll(bench: Bench):
    while bench.log.segments()[-1].size_bytes + len(batch_at(0).data) <= POLICY.segment_bytes:
        bench.append(1)
    return lambda: bench.commit(1)


def _delete(bench: Bench):
    start = bench.log.segments()[2].base_offset
    return lambda: bench.log.commit([LogWrite(log_start_offset=start)], sync=True)


def _swap(bench: Bench):
    run = bench.log.segments()[:3]
    draft = bench.log.draft(run[0].base_offset, run[-1].end_offset)
    draft.add([batch_at(1)])
    draft.seal([])

    def swap():
        try:
            assert bench.log.replace(draft)
        finally:
            draft.discard()

    return swap


def _compact(bench: Bench):
    run = bench.log.segments()[:3]

    def compact():
        draft = bench.log.draft(run[0].base_offset, run[-1].end_offset)
        try:
            draft.add([batch_at(1)])
            draft.seal([])
            bench.log.replace(draft)
        finally:
            draft.discard()

    return compact


def _cut(bench: Bench, index: int):
    bench.truncated = True
    end = bench.log.segments()[index].base_offset + 1
    return lambda: bench.log.truncate(end)


def _cut_unsynced(bench: Bench):
    _roll(bench)()  # the segment of a log that was opened is written with syncs
    bench.append(2)
    return _cut(bench, -1)


def _open(bench: Bench):
    bench.log.close()

    def open_it():
        bench.log = bench.store.open(KEY, bench.policy)

    return open_it


def _create(bench: Bench):
    bench.log.close()
    bench.store.delete(KEY)
    bench.end = 0
    return _open(bench)


def _grown(before: list[int]) -> list[list[int]]:
    return [before, [*before, (before or [-1])[-1] + 1]]


def _same(before: list[int]) -> list[list[int]]:
    return [before]


def _started(before: list[int]) -> list[list[int]]:
    return [before, *(before[n:] for n in range(4, FILLED))]


def _swapped(before: list[int]) -> list[list[int]]:
    return [before, *([1, *before[n:]] for n in range(4, FILLED))]


def _cut_off(before: list[int]) -> list[list[int]]:
    return [before, *(before[:n] for n in range(len(before)))]


SCENARIOS = {
    "commit": Scenario(_commit, _grown),
    "commit without sync": Scenario(_commit, _grown, UNSYNCED),
    "roll": Scenario(_roll, _grown),
    "roll without sync": Scenario(_roll, _grown, UNSYNCED),
    "delete segments": Scenario(_delete, _started),
    "swap": Scenario(_swap, _swapped),
    "compact": Scenario(_compact, _swapped),
    "truncate the active segment": Scenario(lambda bench: _cut(bench, -1), _cut_off),
    "truncate the active segment without sync": Scenario(_cut_unsynced, _cut_off, UNSYNCED),
    "truncate into a sealed segment": Scenario(lambda bench: _cut(bench, 1), _cut_off),
    "open": Scenario(_open, _same),
    "open without sync": Scenario(_open, _same, UNSYNCED),
    "create": Scenario(_create, _same),
}


class Runs:
    """All runs of one scenario."""

    def __init__(self, directory: Path, scenario: Scenario, *, long_form: bool) -> None:
        self._directory = directory
        self._scenario = scenario
        self._long_form = long_form
        self._faults = Faults.of_this_process()
        self._numbers = itertools.count()
        template = Bench(directory / "template", scenario.policy)
        template.store.close()

    def all(self) -> tuple[int, int, int]:
        """Runs them; returns the numbers of system calls, of runs, and of failed operations."""
        runs = failures = 0
        traced = self._trace()
        for mode, error, names in KINDS:
            numbers = [number for number, name in enumerate(traced, 1) if name in names]
            for number in self._chosen(numbers):
                what = f"{traced[number - 1]} (call {number} of {len(traced)}) mode {mode} error {error}"
                runs += 1
                try:
                    failures += self._run(number, mode, error)
                except BaseException as problem:
                    problem.add_note(what)
                    raise
        return len(traced), runs, failures

    def _chosen(self, numbers: list[int]) -> list[int]:
        if self._long_form or len(numbers) <= SHORT_FORM_CALLS:
            return numbers
        step = len(numbers) / SHORT_FORM_CALLS
        return [numbers[int(n * step)] for n in range(SHORT_FORM_CALLS)]

    def _bench(self) -> Bench:
        root = self._directory / f"run-{next(self._numbers)}"
        shutil.copytree(self._directory / "template", root)
        return Bench(root, self._scenario.policy)

    def _trace(self) -> list[str]:
        bench = self._bench()
        operation = self._scenario.prepare(bench)
        self._faults.count(str(bench.root))
        operation()
        self._faults.lift()
        bench.store.close()
        return list(self._faults.trace())

    def _run(self, number: int, mode: int, error: int) -> bool:
        bench = self._bench()
        operation = self._scenario.prepare(bench)
        before = list(range(bench.end))
        times = 2 if mode == LATE_ONCE else 1
        self._faults.fail(str(bench.root), mode=mode, error=error, first=number, times=times)
        failed = False
        try:
            operation()
        except StoreError:
            failed = True
        self._faults.lift()
        bench.sibling.commit([LogWrite([batch_at(bench.sibling.load().log_end_offset)])], sync=True)
        self._check(bench, before, failed=failed)
        shutil.rmtree(bench.root)
        return failed

    def _check(self, bench: Bench, before: list[int], *, failed: bool) -> None:
        if failed:
            bench.open_again()
        assert not bench.log.failed
        held = offsets(bench.log)
        assert held in self._scenario.may_be(before), (before, held)
        bench.end = bench.log.load().log_end_offset
        bench.append(7)
        held += range(bench.end - 7, bench.end)
        assert offsets(bench.log) == held
        bench.store.close()
        left = sorted(path.name for path in bench.root.rglob("*") if path.name.endswith(("-lock", ".new")))
        again = LmdbStore(bench.root, OPTIONS)
        log = again.open(KEY, bench.policy)
        assert offsets(log) == held, left
        assert offsets(again.open(SIBLING, POLICY)) == [0]
        again.close()
        left = [path.name for path in (bench.root).rglob("*") if path.name.endswith(("-lock", ".new", ".deleted"))]
        assert not left


def main(directory: Path, name: str, form: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    calls, runs, failures = Runs(directory, SCENARIOS[name], long_form=form == "long").all()
    print(calls, runs, failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
