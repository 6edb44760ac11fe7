"""The log of a table without Spark: order, fencing, and the state after a kill between any two steps."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table import log as table_log
from odradek.pipeline.table.files import TEMPORARY, LocalFiles
from odradek.pipeline.table.log import HIDDEN, LOG, STAGING, FencedError, Log
from odradek.pipeline.table.manifest import DataFile, Entry, OffsetRange, Span


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


def opened(root: Path) -> Log:
    log = Log(LocalFiles(root))
    if log.exists:
        log.load()
    else:
        log.create({"format": "parquet"}, {"type": "struct", "fields": []})
    return log


def data_file(name: str, first: int, last: int) -> DataFile:
    return DataFile(name, last - first + 1, 3, 0, (Span("t", 0, first, last, last - first + 1),))


def staged(log: Log, writer: table_log.Writer, first: int, last: int, name: str) -> Entry:
    """An entry whose file is in its staging folder."""
    staging = writer.new_staging()
    path = Path(log.files.root) / STAGING / staging / "data" / name
    path.parent.mkdir(parents=True)
    path.write_text(name)
    count = last - first + 1
    ranges = (OffsetRange("t", 0, first, last + 1, count, count),)
    return Entry(0, "batch", writer.role, "", 0, staging, ranges, files=(data_file(name, first, last),))


def visible(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("*.parquet"))


def test_a_step_counts_when_its_entry_is_there(root):
    log = opened(root)
    writer = log.claim("archive")
    entry = staged(log, writer, 0, 9, "a.parquet")
    assert visible(root) == []
    assert opened(root).table.offsets == {}
    writer.commit(entry)
    assert visible(root) == ["a.parquet"]
    again = opened(root).table
    assert again.offsets == {("t", 0): 10}
    assert list(again.files) == ["a.parquet"]
    assert again.records == 10


def test_a_reader_finishes_what_a_killed_writer_left(root, monkeypatch):
    log = opened(root)
    writer = log.claim("archive")
    writer.commit(staged(log, writer, 0, 4, "a.parquet"))
    entry = replace(staged(log, writer, 5, 9, "b.parquet"), removed=("a.parquet",))
    with monkeypatch.context() as killed:
        killed.setattr(Log, "finish", lambda *_: None)
        writer.commit(entry)
    assert visible(root) == ["a.parquet"]
    assert list(opened(root).table.files) == ["b.parquet"]
    assert visible(root) == ["b.parquet"]
    assert log.files.names(STAGING) == []
    opened(root)
    assert visible(root) == ["b.parquet"]


def test_the_later_of_two_writers_fences_the_earlier(root):
    first_log, second_log = opened(root), opened(root)
    first = first_log.claim("archive")
    entry = staged(first_log, first, 0, 9, "a.parquet")
    second = second_log.claim("archive")
    assert second_log.files.names(STAGING) == []
    with pytest.raises(FencedError, match="has taken this table over"):
        commit_unaware(first, entry)
    second.commit(staged(second_log, second, 0, 9, "b.parquet"))
    assert visible(root) == ["b.parquet"]


def test_a_claim_finishes_what_the_fenced_writer_has_committed(root, monkeypatch):
    log, other = opened(root), opened(root)
    first = log.claim("archive")
    with monkeypatch.context() as killed:
        killed.setattr(Log, "finish", lambda *_: None)
        first.commit(staged(log, first, 0, 9, "a.parquet"))
    other.claim("archive")
    assert visible(root) == ["a.parquet"]
    assert other.table.records == 10


def commit_unaware(writer: table_log.Writer, entry: Entry) -> None:
    """Like `commit`, by a writer that has not noticed that its files are deleted."""
    writer.log.add(replace(entry, role=writer.role, writer=writer.name), lambda _: writer.check())


def test_compaction_goes_on_beside_an_archive(root):
    log, other = opened(root), opened(root)
    archive = log.claim("archive")
    archive.commit(staged(log, archive, 0, 4, "a.parquet"))
    other.load()
    compact = other.claim("compact")
    merged = replace(staged(other, compact, 0, 4, "c.parquet"), kind="compact", ranges=(), removed=("a.parquet",))
    archive.commit(staged(log, archive, 5, 9, "b.parquet"))
    compact.commit(merged)
    archive.commit(staged(log, archive, 10, 11, "d.parquet"))
    table = opened(root).table
    assert visible(root) == sorted(table.files) == ["b.parquet", "c.parquet", "d.parquet"]
    assert table.records == 12
    assert table.offsets == {("t", 0): 12}


def test_snapshots_say_the_same_as_the_entries(root, monkeypatch):
    monkeypatch.setattr(table_log, "SNAPSHOT_EVERY", 3)
    log = opened(root)
    writer = log.claim("archive")
    for number in range(7):
        writer.commit(staged(log, writer, number, number, f"{number}.parquet"))
    short = opened(root).table
    assert len(log.files.names(table_log.SNAPSHOTS)) == 2
    log.files.delete(table_log.SNAPSHOTS)
    assert short == opened(root).table == log.table


def test_half_written_entries_are_not_seen(root, monkeypatch):
    log = opened(root)
    monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        log.claim("archive")
    assert log.files.names(LOG) == [f"{0:020}.json"]


def test_names_of_files_and_folders_are_synced_before_a_step_counts_and_after_it(root, monkeypatch):
    synced, fsync = list[Path](), os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    log = opened(root)
    hidden = root / HIDDEN
    assert {root.parent, root, hidden, root / LOG} <= set(synced)
    writer = log.claim("archive")
    entry = staged(log, writer, 0, 9, "date=1/a.parquet")
    step = root / STAGING / entry.staging
    synced.clear()
    writer.commit(entry)
    before = [step / "data" / "date=1" / "a.parquet", step / "data" / "date=1", step / "data", step]
    after = [root / LOG, root / "date=1", root]
    folders = [path for path in synced if not path.name.startswith(TEMPORARY)]
    assert folders == [*before, root / STAGING, hidden, root, *after]


def test_a_folder_without_a_log_is_no_table(root):
    root.mkdir()
    with pytest.raises(PipelineError, match="is no table"):
        Log(LocalFiles(root)).load()
