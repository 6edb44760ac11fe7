"""Segments written without syncs (`flush.messages` unset), and their recovery after a system crash."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults import Faults
from linux_forms import boot_is_known
from system_crash import OPTIONS, PAGE_CACHE, after_a_crash, directory, markers, reopened

from odradek.partitions.model import EpochStart, LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.lmdb_segments import segment_log
from odradek.storage_backends.lmdb_segments import store as store_module
from odradek.storage_backends.lmdb_segments.cleaning import adopt_cleaned_file, cleaned_path
from odradek.storage_backends.lmdb_segments.layout import segment_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.testing.access import base_offsets, fill, joined, read_all
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

MARKER = "00000000000000000000.unsynced"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def commit(log, offset, **more):
    log.commit([LogWrite([make_batch(offset, payload=b"p" * 3000, leader_epoch=offset // 10)], **more)], sync=False)


class TestMarker:
    def test_it_stands_while_commits_are_not_synced_and_goes_when_they_are(self, root):
        store = LmdbStore(root, OPTIONS)
        log = store.open(KEY, PAGE_CACHE)
        assert markers(root) == [MARKER]
        fill(log, 1)
        assert markers(root) == []  # a commit with `sync`: the log continues in a synced segment
        log.configure(LogPolicy())
        commit(log, 1)
        log.configure(PAGE_CACHE)
        commit(log, 2)
        assert markers(root) == []  # the segment is too small to be sealed
        fill(log, 1, start=3, size_bytes=64 * 1024)
        commit(log, 4)
        assert markers(root) == ["00000000000000000004.unsynced"]
        store.close()
        assert markers(root) == []

    @pytest.mark.parametrize(("count", "bases"), [(10, [0, 22]), (30, [0, 30])])
    def test_it_stands_again_when_a_log_that_was_closed_is_written_to(self, root, count, bases):
        """Else each commit would be synced until the segment is full. The size of a commit here is 3,061 bytes."""
        store = LmdbStore(root, OPTIONS)
        log = store.open(KEY, PAGE_CACHE)
        for offset in range(count):
            commit(log, offset)
        log.close()
        log = store.open(KEY, PAGE_CACHE)
        at_once = 0
        for offset in range(count, 40):
            write = LogWrite([make_batch(offset, payload=b"p" * 3000)])
            if log.commit_at_once([write]):
                at_once += 1
            else:
                log.commit([write], sync=False)
        assert [each.base_offset for each in log.segments()] == bases
        assert markers(root) == [f"{bases[-1]:020d}.unsynced"]
        assert at_once == 39 - bases[-1]
        store.close()

    def test_a_sealed_segment_has_none(self, root):
        store = LmdbStore(root, OPTIONS)
        log = store.open(KEY, LogPolicy(segment_bytes=5000, durable=False))
        for offset in range(6):
            commit(log, offset)
        assert markers(root) == [f"{log.segments()[-1].base_offset:020d}.unsynced"]
        assert len(log.segments()) > 3
        store.close()

    @boot_is_known
    def test_a_killed_process_loses_nothing(self, root, caplog):
        """The boot is the same, so the page cache still has everything."""
        store = LmdbStore(root, OPTIONS)
        log = store.open(KEY, PAGE_CACHE)
        commit(log, 0, producers={1: b"state"})
        boot_id = (directory(root) / MARKER).read_text()
        before = log.load()
        store.close()
        (directory(root) / MARKER).write_text(boot_id)
        store, log = reopened(root)
        assert log.load() == before
        assert caplog.records == []
        store.close()


@pytest.mark.processes  # the store checks a damaged file in a process of its own
class TestSalvage:
    def test_everything_that_is_whole_is_kept_and_the_loss_is_logged(self, root, caplog):
        def fill_log(log):
            for offset in range(30):
                commit(
                    log, offset, producers={1: b"state"}, epochs=[EpochStart(offset // 10, offset)][: offset % 10 == 0]
                )
            log.commit([LogWrite(log_start_offset=5)], sync=False)

        after_a_crash(root, fill_log)
        with caplog.at_level(logging.WARNING):
            store, log = reopened(root)
        assert "kept offsets 0 to 30" in caplog.text
        assert "set flush.messages=1" in caplog.text
        snapshot = log.load()
        assert (snapshot.log_start_offset, snapshot.log_end_offset) == (5, 30)
        assert snapshot.epochs == (EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 20))
        assert snapshot.producers == {}
        assert read_all(log, 29) == make_batch(29, payload=b"p" * 3000, leader_epoch=2).data
        assert markers(root) == []
        fill(log, 3, start=30)
        store.close()

    @pytest.mark.parametrize("boot", ["one of Linux", ""])
    def test_a_marker_that_was_emptied_is_never_that_of_this_boot(self, root, boot, monkeypatch, caplog):
        """Also where the operating system does not have ids of boots."""
        monkeypatch.setattr(store_module, "boot_id", lambda: boot)
        after_a_crash(root, lambda log: [commit(log, offset) for offset in range(3)], content="")
        store, log = reopened(root)
        assert "kept offsets 0 to 3" in caplog.text
        fill(log, 1, start=3)
        store.close()

    def test_only_what_comes_before_a_damaged_batch(self, root):
        def damage(path):
            content = bytearray(path.read_bytes())
            at = content.index(bytes(make_batch(17, payload=b"p" * 3000, leader_epoch=1).data))
            content[at + 2000] ^= 1
            path.write_bytes(content)

        after_a_crash(root, lambda log: [commit(log, offset) for offset in range(30)], damage)
        store, log = reopened(root)
        assert log.load().log_end_offset == 17
        assert read_all(log, 16) == make_batch(16, payload=b"p" * 3000, leader_epoch=1).data
        fill(log, 1, start=17)
        store.close()

    @pytest.mark.parametrize("cut", [0, 100, 9000, 40_000, 100_000])
    def test_a_file_whose_pages_are_missing(self, root, cut, caplog):
        """A missing page kills a process that reads it through LMDB (SIGBUS), here the salvaging process."""
        after_a_crash(
            root, lambda log: [commit(log, offset) for offset in range(60)], lambda path: os.truncate(path, cut)
        )
        store, log = reopened(root)
        end_offset = log.load().log_end_offset
        assert 0 <= end_offset < 60
        for offset in range(end_offset):
            assert read_all(log, offset).startswith(
                make_batch(offset, payload=b"p" * 3000, leader_epoch=offset // 10).data
            )
        fill(log, 2, start=end_offset)
        store.close()
        assert "kept offsets 0 to" in caplog.text

    def test_sealed_segments_before_it_stay(self, root):
        def fill_log(log):
            log.configure(LogPolicy(segment_bytes=20_000, durable=False))
            for offset in range(20):
                commit(log, offset)
            log.commit([LogWrite(log_start_offset=8)], sync=False)

        after_a_crash(root, fill_log, lambda path: os.truncate(path, 0))
        store, log = reopened(root)
        snapshot, segments = log.load(), log.segments()
        assert 8 <= snapshot.log_end_offset == segments[-1].base_offset < 20
        assert [each.end_offset for each in segments[:-1]] == [each.base_offset for each in segments[1:]]
        batches = [make_batch(n, payload=b"p" * 3000, leader_epoch=n // 10) for n in range(8, snapshot.log_end_offset)]
        assert joined(batches).startswith(read_all(log, 8))
        store.close()


@pytest.mark.processes
class TestCleaned:
    @pytest.mark.parametrize("moved", [0, 2])
    def test_a_replacement_that_was_decided_is_finished_after_the_crash(self, root, moved, monkeypatch):
        """The old segments, or some of them, are still there; what the active segment recorded may be lost."""

        def adopt_and_crash(*given):
            adopt_cleaned_file(*given)
            raise OSError

        def fill_log(log):
            log.configure(LogPolicy(segment_bytes=5000, durable=False))
            for offset in range(6):
                commit(log, offset)
            draft = log.draft(0, 3)
            draft.add([make_batch(2)])
            draft.seal([])
            with monkeypatch.context() as patch:
                patch.setattr(segment_log, "adopt_cleaned_file", adopt_and_crash)
                with pytest.raises(StoreError):
                    log.replace(draft)
            assert cleaned_path(directory(root), 0).exists()
            for base in range(moved):
                (directory(root) / segment_name(base)).unlink()

        after_a_crash(root, fill_log)
        store, log = reopened(root)
        assert base_offsets(log) == [2, 3, 4, 5]
        assert log.load().log_start_offset == 0
        assert [each.base_offset for each in log.segments()] == [0, 3, 4, 5]
        assert not list(directory(root).glob("*.cleaned"))
        store.close()


_AT_ONCE = """
import sys
from pathlib import Path
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.lmdb_segments import segment_log
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
from odradek.partitions.model import LogWrite
log = open_store(f"lmdb://{sys.argv[1]}/store").open(KEY, LogPolicy(segment_bytes=10_000, durable=False))
print("open", flush=True)
for line in sys.stdin:
    end = log.load().log_end_offset
    batches = [] if line.startswith("delete") else [make_batch(end, payload=b"p" * 3000)]
    write = LogWrite(batches, log_start_offset=end - 1 if line.startswith("delete") else None)
    done = log.commit_at_once([write])
    print("at once" if done else "would wait", flush=True)
    sys.stdin.readline()
    if not done:
        log.commit([write], sync=False)
    while any(Path(sys.argv[1]).rglob("*.deleted")):
        pass  # another thread removes them: not to be seen in the next step
    print("done", flush=True)
"""


def test_a_commit_at_once_only_writes_and_all_else_is_left_to_a_commit(tmp_path):
    """Checked below LMDB: the call never syncs, opens, renames or removes a file, whether or not it commits."""
    faults = Faults(tmp_path)
    command = [sys.executable, "-c", _AT_ONCE, str(tmp_path)]
    environment = {**os.environ, **faults.environment}
    answers, waited = [], set()
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as worker:

        def ask(what):
            faults.count(f"{tmp_path}/store")
            worker.stdin.write(what + "\n")
            worker.stdin.flush()
            return worker.stdout.readline().strip()

        assert worker.stdout.readline() == "open\n"
        for what in ["produce"] * 8 + ["delete", "produce"]:
            answers.append(ask(what))
            assert set(faults.trace()) <= {"write", "pwrite", "writev", "pwritev"}
            assert ask("go on") == "done"
            if answers[-1] == "would wait":
                waited.update(faults.trace())
        worker.stdin.close()
    assert "".join("-" if answer == "at once" else "W" for answer in answers) == "---W--W-W-"
    assert {"fdatasync", "rename"} <= waited, "what was left to a commit does wait for the disk"


class Markers:
    """The markers that a power cut may bring back: those after whose removal the directory was not synced."""

    def __init__(self, monkeypatch, root):
        self._removed = {}
        unlink, fsync = Path.unlink, os.fsync

        def unlinked(path, missing_ok=False):
            is_marker = path.suffix == ".unsynced" and path.exists()
            unlink(path, missing_ok=missing_ok)
            if is_marker:
                self._removed[path] = None

        def synced(fd):
            if Path(f"/proc/self/fd/{fd}").readlink() == directory(root):
                self._removed.clear()
            fsync(fd)

        monkeypatch.setattr(Path, "unlink", unlinked)
        monkeypatch.setattr(os, "fsync", synced)

    def cut_power(self):
        for path in self._removed:
            path.write_bytes(b"00000000-another-boot")


def commit_with_gaps(log, *, sync):
    """As a follower of a compacted topic does; a salvage would remove the row of the producer."""
    for offset in (0, 1, 5):
        write = LogWrite([make_batch(offset, payload=b"p" * 300)], replicated=True, producers={7: b"state"})
        log.commit([write], sync=sync)
    return log.load()


def test_a_log_that_was_closed_is_not_salvaged_after_a_power_cut(root, monkeypatch):
    markers_of = Markers(monkeypatch, root)
    store = LmdbStore(root, OPTIONS)
    before = commit_with_gaps(store.open(KEY, PAGE_CACHE), sync=False)
    store.close()
    markers_of.cut_power()
    store, log = reopened(root)
    assert log.load() == before
    store.close()


def test_a_log_that_is_written_with_syncs_from_its_first_record_on_is_not_salvaged_after_a_power_cut(root, monkeypatch):
    markers_of = Markers(monkeypatch, root)
    store = LmdbStore(root, OPTIONS)
    log = store.open(KEY, PAGE_CACHE)
    log.configure(LogPolicy())
    before = commit_with_gaps(log, sync=True)
    markers_of.cut_power()
    left = {path: path.read_bytes() for path in directory(root).glob("*.unsynced")}
    store.close()
    for path, content in left.items():
        path.write_bytes(content)
    store, log = reopened(root)
    assert log.load() == before
    store.close()


_FAILED_SYNC = """
import sys
from pathlib import Path
from faults import Faults
from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.access import base_offsets
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY
root, policy = Path(sys.argv[1]), LogPolicy(segment_bytes=20_000, durable=False)

def commit(offset):
    log.commit([LogWrite([make_batch(offset, payload=b"p" * 3000)])], sync=False)

store = open_store(f"lmdb://{root}")
log = store.open(KEY, policy)
for offset in range(6):
    commit(offset)
faults = Faults.of_this_process()
faults.fail(".lmdb", calls=["fdatasync", "fsync", "msync"], times=1)
for call in (OPERATION, log.close):
    try:
        call()
    except StoreError as error:
        print("failed:", error)
assert faults.failed == 1, faults.failed
path = next(root.rglob("*.lmdb"))
content = bytearray(path.read_bytes())
content[content.index(make_batch(3, payload=b"p" * 3000).data) + 2000] ^= 1  # the page was never written to the disk
path.write_bytes(content)
log = store.open(KEY, policy)
print("kept", base_offsets(log))
for offset in range(log.load().log_end_offset, 9):
    commit(offset)
store.close()
log = open_store(f"lmdb://{root}").open(KEY, policy)
print("then", base_offsets(log))
"""


@pytest.mark.parametrize("operation", ["commit(6)", "log.truncate(6)", "log.close()"])
def test_a_sync_that_follows_a_failed_one_does_not_count(tmp_path, operation):
    """The operating system reports pages that it cannot write once, and may drop them."""
    script = _FAILED_SYNC.replace("OPERATION", f"lambda: {operation}")
    environment = {**os.environ, **Faults(tmp_path).environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "failed: " in done.stdout
    assert "kept [0, 1, 2]" in done.stdout
    assert f"then {list(range(9))}" in done.stdout
    assert "a flush failed" in done.stderr
