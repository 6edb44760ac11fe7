"""Appends to a log of the store in argv[1], without syncs, until its parent ends; prints a line when it has begun."""

import itertools
import os
import sys
from pathlib import Path

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY


def write_for_ever(root, segment_bytes):
    log = LmdbStore(Path(root), StoreOptions(max_value_bytes=4080)).open(KEY, LogPolicy(segment_bytes, durable=False))
    end = log.load().log_end_offset
    parent = os.getppid()
    for number in itertools.count():
        if os.getppid() != parent:
            return
        size = (100, 300, 5000)[number % 3]
        batch = make_batch(end, 1 + number % 4, max_timestamp_ms=end, payload=b"%08d" % end * (size // 8))
        end = batch.last_offset + 1
        rows = {number % 40: b"%d" % end * 5}
        log.commit([LogWrite([batch], producers=rows)], sync=False)
        if number == 100:
            print("begun", flush=True)


if __name__ == "__main__":
    write_for_ever(sys.argv[1], int(sys.argv[2]))
