"""A million committed offsets: their size on disk after compaction, and the time that a restarted broker loads them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Figure, Mode
from benchmarks.loads import run_load

COMMITS, PARTITIONS = 1_000_000, 1_000
TOPIC = "__consumer_offsets"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    # Kafka's minimum, a hundredth of what is written. With the default, everything would be in the active segment,
    # which is never compacted.
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "500",
}
SETTLED_S, SETTLES_WITHIN_S = 5, 60


def offsets(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Commits a second, MB on disk after compaction, and seconds from a restart to the first correct answer."""
    del mode
    commits = COMMITS // 10 if effort.quick else COMMITS
    broker = side.fresh(SETTINGS)
    try:
        with broker.topic(PARTITIONS, Mode.PAGE_CACHE) as topic:
            done = run_load(
                "offsets",
                "commit",
                timeout_s=300,
                bootstrap=broker.bootstrap,
                topic=topic,
                partitions=PARTITIONS,
                commits=commits,
            )
            disk_mb = _settled_bytes(broker.home) / 1e6
            broker.restart()
            started = time.perf_counter()
            run_load(
                "offsets",
                "fetch",
                timeout_s=90,
                bootstrap=broker.bootstrap,
                partitions=PARTITIONS,
                offset=commits // PARTITIONS - 1,
            )
            restart_s = broker.start_s + time.perf_counter() - started
    finally:
        broker.stop()
    return {"rate": done["commits"] / done["seconds"], "disk": disk_mb, "restart": restart_s}


def _settled_bytes(home: Path) -> int:
    """The size of the topic on disk after it has not changed for `SETTLED_S`, or after `SETTLES_WITHIN_S`."""
    began = changed_at = time.perf_counter()
    size = _disk_bytes(home)
    while time.perf_counter() - changed_at < SETTLED_S and time.perf_counter() - began < SETTLES_WITHIN_S:
        threading.Event().wait(0.2)
        now = _disk_bytes(home)
        if now != size:
            size, changed_at = now, time.perf_counter()
    return size


def _disk_bytes(home: Path) -> int:
    """The blocks of all files whose path contains the topic's name, in bytes; files deleted meanwhile do not count."""
    total = 0
    for path in home.rglob("*"):
        if TOPIC in str(path.relative_to(home)):
            with suppress(FileNotFoundError):
                total += path.stat().st_blocks * 512
    return total


CASES = (
    Case(
        "million-commits",
        "a million committed offsets of 1,000 partitions",
        (
            Figure("rate", "commits/s"),
            Figure("disk", "MB left of the offsets topic", higher_is_better=False),
            Figure("restart", "s, restart to the first OffsetFetch", higher_is_better=False),
        ),
        offsets,
        modes=(Mode.ANY,),
    ),
)
