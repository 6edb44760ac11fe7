"""A topic read by Spark and archived as a table, from both sides."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import Case, Effort, Figure, Mode
from benchmarks.loads import run_load

SIZE_BYTES = 1024
BATCH_RECORDS = 60
BATCHES = 16_667
"""A million records at full scale."""


def archive(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """1,000 records of 1 KiB a second: of `format("kafka")` with the settings of jobs, and of the archive job."""
    broker = side.broker
    fill = {"bootstrap": broker.bootstrap, "records": BATCH_RECORDS, "size_bytes": SIZE_BYTES}
    with broker.topic(1, mode) as warm_up, broker.topic(1, mode) as topic:
        run_load("raw", "fill", timeout_s=60, topic=warm_up, batches=100, **fill)
        filled = run_load("raw", "fill", timeout_s=240, topic=topic, batches=int(BATCHES * effort.scale), **fill)
        records = int(filled["records"])
        took = run_load(
            "archive", "both", timeout_s=600, bootstrap=broker.bootstrap, warm_up=warm_up, topic=topic, records=records
        )
    return {name: records / 1000 / seconds for name, seconds in took.items()}


CASES = (
    Case(
        "archive",
        'Spark: format("kafka"), archive',
        (Figure("read", "1,000 records/s read"), Figure("archive", "1,000 records/s archived")),
        archive,
        modes=(Mode.PAGE_CACHE,),
        rounds=3,
    ),
)
