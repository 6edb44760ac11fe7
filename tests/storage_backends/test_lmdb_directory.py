"""The store's directory: its lock, its format, and access by other processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest
from linux_forms import directories_are_locked, table_in_memory

from odradek.storage_backends.interface import LogPolicy, StoreCorruptError, StoreFormatError, StoreLockedError
from odradek.storage_backends.lmdb_segments.layout import LOG_DB, partition_dir_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.opener import StoreUrlError, open_store
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.keys import DOTTED, KEY, LONGEST, SIBLING

OPTIONS = StoreOptions(map_slack_bytes=4 << 20)


@pytest.mark.parametrize("url", ["lmdb://{}/a/b", "sqlite:///{}/a/b/store.db"])
def test_the_names_of_new_directories_are_durable(tmp_path, monkeypatch, url):
    """Else a crash of the system could lose the whole store, with all that it has acknowledged."""
    synced = []

    def record(fd, fsync=os.fsync):
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    open_store(url.format(tmp_path)).close()
    assert {str(tmp_path), str(tmp_path / "a")} <= set(synced)
    synced.clear()
    open_store(url.format(tmp_path)).close()
    assert str(tmp_path) not in synced


class TestLock:
    def test_a_second_process_is_refused_with_the_owner_in_the_message(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        script = (
            "import sys; from odradek.storage_backends.opener import open_store\n"
            "from odradek.storage_backends.interface import StoreLockedError\n"
            "try: open_store('lmdb://' + sys.argv[1])\n"
            "except StoreLockedError as error: sys.exit(f'refused: {error}')\n"
        )
        answer = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
        assert answer.returncode == 1
        assert f"refused: {tmp_path} is in use by the process with id {os.getpid()}: stop it first" in answer.stderr
        store.close()
        answer = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, "")

    def test_so_is_a_second_store_in_the_same_process(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        with pytest.raises(StoreLockedError, match=f"process with id {os.getpid()}"):
            LmdbStore(tmp_path, OPTIONS)
        store.close()
        LmdbStore(tmp_path, OPTIONS).close()

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(Path.unlink, marks=directories_are_locked, id="removed"),
            pytest.param(lambda path: path.write_bytes(b"\xff" * 99), id="overwritten"),
        ],
    )
    def test_the_directory_stays_locked_when_its_lock_file_is_damaged(self, tmp_path, damage):
        store = LmdbStore(tmp_path, OPTIONS)
        damage(tmp_path / "lock")
        with pytest.raises(StoreLockedError, match="is in use by the process with id"):
            LmdbStore(tmp_path, OPTIONS)
        store.close()
        LmdbStore(tmp_path, OPTIONS).close()

    def test_the_lock_of_a_killed_process_does_not_stay(self, tmp_path):
        script = (
            "import os, sys; from odradek.storage_backends.opener import open_store\n"
            "open_store('lmdb://' + sys.argv[1]); os.kill(os.getpid(), 9)\n"
        )
        assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == -9
        LmdbStore(tmp_path, OPTIONS).close()


class TestLockFilesOfSegments:
    @pytest.mark.parametrize("name", ["00000000000000000000.lmdb-lock", "00000000000000000007.lmdb.new-lock"])
    @pytest.mark.parametrize("is_link", [False, True], ids=["file", "link"])
    def test_one_left_by_a_kill_goes_when_the_partition_is_opened(self, tmp_path, name, is_link):
        """It exists only while a segment is being opened, or is open, unless a kill leaves it."""
        store = LmdbStore(tmp_path, OPTIONS)
        fill(store.open(KEY, LogPolicy()), 3)
        store.close()
        left = tmp_path / partition_dir_name(KEY) / name
        if is_link:
            left.symlink_to("/proc/self/fd")  # the descriptor of a former process may be anything now
        else:
            left.write_bytes(bytes(100))
        store = LmdbStore(tmp_path, OPTIONS)
        assert store.open(KEY, LogPolicy()).load().log_end_offset == 3
        store.close()
        assert not left.is_symlink()
        assert not left.exists()

    def test_one_that_could_not_be_removed_keeps_no_sealed_segment_from_being_read(self, tmp_path):
        """It links to a descriptor number that may belong to another open segment when this segment is reopened."""
        store = LmdbStore(tmp_path, OPTIONS)
        log = store.open(KEY, LogPolicy(segment_bytes=500))
        batches = fill(log, 20)
        first, *_, last = sorted((tmp_path / partition_dir_name(KEY)).glob("*.lmdb"))
        store.close_idle()
        store.close_idle()
        log.read(batches[-1].base_offset, 20, 1).release()  # the last segment is open again
        first.with_name(first.name + "-lock").symlink_to(last)
        assert read_all(log, 0).startswith(bytes(batches[0].data))
        store.close()

    @table_in_memory
    def test_none_stays_while_a_log_is_open(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        fill(store.open(KEY, LogPolicy(segment_bytes=500)), 20)
        assert not [path.name for path in tmp_path.rglob("*-lock")]
        store.close()

    def test_none_stays_after_a_log_was_closed(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        fill(store.open(KEY, LogPolicy(segment_bytes=500)), 20)
        store.close()
        assert not [path.name for path in tmp_path.rglob("*-lock")]


class TestFormat:
    def test_another_version_s_store_is_refused_by_both_names(self, tmp_path):
        LmdbStore(tmp_path, OPTIONS).close()
        (tmp_path / "format").write_text("odradek-lmdb 2\n")
        with pytest.raises(StoreFormatError, match=r"format 'odradek-lmdb 2'; this version knows odradek-lmdb 1"):
            LmdbStore(tmp_path, OPTIONS)
        (tmp_path / "format").write_text("odradek-lmdb 1\n")
        LmdbStore(tmp_path, OPTIONS).close()

    def test_somebody_else_s_directory_is_not_touched(self, tmp_path):
        (tmp_path / "thesis.txt").write_text("chapter 1")
        with pytest.raises(StoreFormatError, match=r"it holds thesis\.txt"):
            LmdbStore(tmp_path, OPTIONS)
        assert not (tmp_path / "format").exists()

    def test_other_directories_are_left_alone_with_one_warning(self, tmp_path, caplog):
        store = LmdbStore(tmp_path, OPTIONS)
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos-x.W5-7jm1LT9qaO457W098EQ").mkdir()
        for key in (KEY, SIBLING):
            store.open(key, LogPolicy()).close()
            assert key in store.partitions()
        assert list(store.partitions()) == [KEY, SIBLING]
        warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert len(warnings) == 2
        assert all("move it elsewhere" in each for each in warnings)
        store.close()

    @pytest.mark.parametrize("content", [b"", b"y" * 249, b"\xff\xfe", None])
    def test_a_long_topic_name_that_was_damaged_is_written_again_at_the_next_use(self, tmp_path, content):
        store = LmdbStore(tmp_path, OPTIONS)
        batches = fill(store.open(LONGEST, LogPolicy()), 3)
        store.close()
        path = tmp_path / partition_dir_name(LONGEST) / "topic"
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        store = LmdbStore(tmp_path, OPTIONS)
        assert list(store.partitions()) == []
        assert read_all(store.open(LONGEST, LogPolicy()), 0) == joined(batches)
        assert list(store.partitions()) == [LONGEST]
        store.close()

    def test_a_directory_removed_while_in_use_is_not_begun_anew_before_the_next_start(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        log = store.open(KEY, LogPolicy())
        fill(log, 3)
        shutil.rmtree(tmp_path / partition_dir_name(KEY))
        with pytest.raises(StoreCorruptError, match="was removed while the broker used it"):
            log.load()
        with pytest.raises(StoreCorruptError, match="was removed while the broker used it"):
            log.close()
        with pytest.raises(StoreCorruptError, match=r"or start the broker again: .* begins empty at offset 0"):
            store.open(KEY, LogPolicy())
        store.close()
        store = LmdbStore(tmp_path, OPTIONS)
        assert store.open(KEY, LogPolicy()).load().log_end_offset == 0
        store.close()

    @pytest.mark.parametrize("content", ["", "junk", None])
    def test_a_damaged_or_lost_format_file_is_written_again_by_the_messages_advice(self, tmp_path, content):
        store = LmdbStore(tmp_path / "my data", OPTIONS)
        batches = fill(store.open(KEY, LogPolicy()), 3)
        store.close()
        path = tmp_path / "my data" / "format"
        path.unlink()
        if content is not None:
            path.write_text(content)
        with pytest.raises(StoreFormatError, match="write it again: echo 'odradek-lmdb 1' > ") as refused:
            LmdbStore(tmp_path / "my data", OPTIONS)
        subprocess.run(str(refused.value).rpartition("write it again: ")[2], shell=True, check=True)
        store = LmdbStore(tmp_path / "my data", OPTIONS)
        assert read_all(store.open(KEY, LogPolicy()), 0) == joined(batches)
        store.close()

    def test_damaged_properties(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        store.set_properties({"a": "b"})
        store.close()
        for text in ("{", "", "[]", "\0\0"):
            (tmp_path / "properties.json").write_text(text)
            with pytest.raises(
                StoreCorruptError, match=r"properties\.json is not what was written .*, delete it"
            ) as said:
                LmdbStore(tmp_path, OPTIONS)
            assert "On every other controller it has the vote and the directory id: do not delete it" in str(said.value)
        (tmp_path / "properties.json").unlink()
        LmdbStore(tmp_path, OPTIONS).close()

    def test_directory_names(self, tmp_path):
        assert partition_dir_name(KEY) == "orders-0.W5-7jm1LT9qaO457W098EQ"
        assert (
            partition_dir_name(DOTTED) == "a.b-c_d-1-12._____________________w"[:13] + partition_dir_name(DOTTED)[13:]
        )
        assert len(partition_dir_name(LONGEST)) < 255


class TestOtherReaders:
    def test_a_sealed_segment_can_be_read_by_any_process_without_a_lock(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        log = store.open(KEY, LogPolicy(segment_bytes=500))
        batches = fill(log, 10)
        script = (
            "import lmdb, sys\n"
            "env = lmdb.open(sys.argv[1], subdir=False, readonly=True, lock=False, max_dbs=1, map_size=1)\n"
            "log = env.open_db(b'log', create=False)\n"
            "values = [value for _, value in env.begin(db=log).cursor()]\n"
            "sys.stdout.buffer.write(b''.join(values))\n"
        )
        path = tmp_path / partition_dir_name(KEY) / "00000000000000000000.lmdb"
        got = subprocess.run([sys.executable, "-c", script, path], capture_output=True, check=True).stdout
        assert got == joined(batches[: log.segments()[0].end_offset])
        store.close()

    @table_in_memory
    def test_nothing_but_segments_lies_in_a_partition_s_directory(self, tmp_path):
        store = LmdbStore(tmp_path, OPTIONS)
        fill(store.open(KEY, LogPolicy(segment_bytes=500)), 10)
        assert {each.suffix for each in (tmp_path / partition_dir_name(KEY)).iterdir()} == {".lmdb"}
        store.close()

    def test_values_are_joined_batches_keyed_by_last_offset(self, tmp_path):
        """The part of the layout that external readers may rely on."""
        store = LmdbStore(tmp_path, OPTIONS)
        batches = fill(store.open(KEY, LogPolicy()), 3)
        store.close()
        path = tmp_path / partition_dir_name(KEY) / "00000000000000000000.lmdb"
        with lmdb.open(str(path), subdir=False, readonly=True, lock=False, max_dbs=1, map_size=1) as env:
            log = env.open_db(LOG_DB, create=False)
            with env.begin(db=log) as txn:
                rows = list(txn.cursor())
        assert rows == [(n.to_bytes(8, "big"), batch.data) for n, batch in enumerate(batches)]


class TestOpener:
    def test_memory_and_lmdb(self, tmp_path):
        open_store("memory://").close()
        open_store(f"lmdb://{tmp_path}/with%20space").close()
        assert (tmp_path / "with space" / "format").exists()

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("rocksdb:///x", "unknown storage scheme 'rocksdb'; known are memory://, lmdb://, sqlite://, postgresql"),
            ("/var/lib", "unknown storage scheme ''"),
            ("postgresql+psycopg://host/", "names no database"),
            ("sqlite://relative.db", "needs the absolute path of a file"),
            ("sqlite:///", "needs the absolute path of a file"),
            ("lmdb://relative/path", "needs an absolute path"),
            ("lmdb:relative", "needs an absolute path"),
            ("lmdb:///x?y=z", "query"),
            ("memory://name", "no name or path"),
        ],
    )
    def test_what_cannot_be_opened(self, url, message):
        with pytest.raises(StoreUrlError, match=message):
            open_store(url)


def test_kafkas_meta_properties_are_there_once_all_ids_are_known(tmp_path):
    file = tmp_path / "meta.properties"
    store = LmdbStore(tmp_path, StoreOptions())
    store.set_properties({"cluster.id": "a", "node.id": "7"})
    assert not file.exists()
    store.set_properties({"directory.id": "00000000-0000-4000-8000-0000000000ff"})
    content = "cluster.id=a\ndirectory.id=AAAAAAAAQACAAAAAAAAA_w\nnode.id=7\nversion=1\n"
    assert file.read_text() == content
    file.unlink()
    store.set_properties({"other": "b"})
    assert file.read_text() == content
    store.set_properties({"node.id": "8"})
    assert file.read_text() == content.replace("7", "8")
    store.close()
    names = ["format", "lock", "meta.properties", "properties.json", "reserve"]
    assert sorted(each.name for each in tmp_path.iterdir()) == names
