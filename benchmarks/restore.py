"""A table restored to a topic, compared with a plain librdkafka producer with records of the same size."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Figure, Mode
from benchmarks.loads import run_load
from benchmarks.produce import librdkafka

RECORDS = 1_000_000
SIZE_BYTES = 1024
PARTITIONS = 4
TIMEOUT_S = 600


def restore(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """MB a second of the job, without Spark's start, and as a share of a producer's rate measured just before."""
    produced = librdkafka(side, mode, effort, size_bytes=SIZE_BYTES, partitions=PARTITIONS)["rate"]
    broker = side.broker
    with broker.topic(PARTITIONS, mode) as warm_up, broker.topic(PARTITIONS, mode) as topic:
        before = broker.cpu_seconds()
        done = run_load(
            "restore",
            "restore",
            timeout_s=TIMEOUT_S,
            bootstrap=broker.bootstrap,
            warm_up=warm_up,
            topic=topic,
            partitions=PARTITIONS,
            size_bytes=SIZE_BYTES,
            records=int(RECORDS * effort.scale),
        )
        megabytes = done["records"] * SIZE_BYTES / 1e6
        rate = megabytes / done["seconds"]
        return {"rate": rate, "share": rate / produced, "cpu": (broker.cpu_seconds() - before) / megabytes}


CASES = (
    Case(
        "restore",
        "restore a table, 1 KB",
        (Figure("rate", "MB/s"), Figure("share", "of librdkafka's rate")),
        restore,
        quick_modes=(Mode.FSYNC,),
    ),
)
