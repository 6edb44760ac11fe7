"""A process that commits batches and prints each offset once `commit` has returned, until it is killed.

Arguments: the URL of a store, `sync` or `nosync`.
"""

import sys

from odradek.partitions.model import LogWrite
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.opener import open_store
from odradek.storage_backends.testing.batches import make_batch
from odradek.storage_backends.testing.keys import KEY

durable = sys.argv[2] == "sync"
store = open_store(sys.argv[1])
log = store.open(KEY, LogPolicy(segment_bytes=20_000, durable=durable))
offset = log.load().log_end_offset
sys.stdout.write(f"open {offset}\n")
while True:
    writes = []
    for _ in range(1 + offset % 3):
        batch = make_batch(offset, 2, max_timestamp_ms=offset, payload=b"%d" % offset * (1 + offset % 200))
        writes.append(LogWrite([batch], producers={offset % 10: b"%d" % offset}))
        offset += 2
    if offset % 50 == 0:
        writes.append(LogWrite(log_start_offset=max(0, offset - 1000)))
    log.commit(writes, sync=durable)
    sys.stdout.write(f"{offset}\n")
    sys.stdout.flush()
