"""The recently written part of a log: bounded in bytes, and in the memory that tracks it."""

import tracemalloc

from odradek.storage_backends.lmdb_segments.hot import HotTail


def test_it_holds_about_its_bytes_whatever_the_commits_sizes() -> None:
    for size in (10, 100, 1000):
        tail = HotTail(6400, 0)
        for offset in range(5000):
            tail.add(offset, size)
        held_bytes = (5000 - tail.start_offset) * size
        assert 6400 - 1000 < held_bytes <= 6400, size


def test_a_commit_larger_than_all_of_it_is_hot() -> None:
    tail = HotTail(1000, 0)
    for offset in range(10):
        tail.add(offset, 5000)
    assert tail.start_offset == 9


def test_small_commits_take_no_memory_each() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tail = HotTail(32 * 1024 * 1024, 0)
        for offset in range(100_000):
            tail.add(offset, 170)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tail.start_offset == 0, "all of it is still hot"
    assert after - before < 20_000
