"""Spark reads 1 KiB records: from the data directory, `format("odradek")`, and over the wire, `format("kafka")`.

Only Odradek is measured: its data are read in both ways, in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import ODRADEK, Case, Effort, Figure, Mode
from benchmarks.loads import run_load

SIZE_BYTES = 1024
PARTITIONS = 4
RECORDS = 1_000_000
_WITHIN_S = 900


def read(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Records a second from the segments, and as a multiple of the rates over the wire, untuned and tuned."""
    broker = side.broker
    with broker.topic(PARTITIONS, mode) as topic:
        run_load(
            "spark",
            "fill",
            timeout_s=_WITHIN_S,
            bootstrap=broker.bootstrap,
            topic=topic,
            partitions=PARTITIONS,
            records=int(RECORDS * effort.scale),
            size_bytes=SIZE_BYTES,
        )
        found = run_load(
            "spark",
            "read",
            timeout_s=_WITHIN_S,
            bootstrap=broker.bootstrap,
            data=str(broker.home / "data"),
            topic=topic,
            rounds=1 if effort.quick else 5,
        )
    return {
        "rate": found["records"] / found["segments"],
        "wire": found["wire"] / found["segments"],
        "tuned": found["tuned"] / found["segments"],
    }


CASES = (
    Case(
        "spark-source",
        'Spark, format("odradek")',
        (
            Figure("rate", "records/s"),
            Figure("wire", 'times format("kafka")'),
            Figure("tuned", 'times format("kafka"), tuned'),
        ),
        read,
        modes=(Mode.PAGE_CACHE,),
        sides=(ODRADEK,),
        absent="reads the data directory of Odradek",
    ),
)
