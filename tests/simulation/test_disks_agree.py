"""The same simulation on the memory store, on real LMDB segments and on SQLite gives the same trace.

Replies to clients depend on the answers of the store, and the digest covers every byte that clients receive. Power cuts
are like kills here, since real files cannot lose unsynced data.
"""

import itertools

import pytest
from sim_one_broker import simulate

from odradek.storage_backends.lmdb_segments.partition import LmdbPartition
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.opener import StoreOptions, open_store
from odradek.storage_backends.sql.partition import SqlPartition

LOADS = ("plain",)
"""The load whose logs have one segment: a read from LMDB ends at the segment's end, one from memory continues."""


class Memory:
    def __init__(self):
        self.medium = MemoryMedium()

    def open(self):
        return MemoryStore(self.medium)


class Directory:
    def __init__(self, path):
        self.path = path

    def open(self):
        return open_store(f"lmdb://{self.path}", StoreOptions(max_value_bytes=1))  # reads may stop after any value


class Database:
    def __init__(self, path):
        self.path = path

    def open(self):
        return open_store(f"sqlite://{self.path}.db")


@pytest.mark.parametrize(("medium", "partition"), [(Directory, LmdbPartition), (Database, SqlPartition)])
@pytest.mark.parametrize("seed", range(4))
def test_a_real_store_gives_the_trace_that_memory_gives(seed, medium, partition, tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "is_hot", lambda _self, _offset: True)  # affects only the duration
    numbers = itertools.count()
    in_memory = simulate(seed, Memory, loads=LOADS)
    on_disk = simulate(seed, lambda: medium(tmp_path / str(next(numbers))), loads=LOADS)
    assert not on_disk.failure, on_disk.explain()
    assert on_disk.digest == in_memory.digest
