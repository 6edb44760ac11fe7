"""Transactions over ten partitions: the time from the begin to the acknowledged commit."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

from benchmarks.brokers import Side
from benchmarks.cases import CPU, Case, Effort, Figure, Mode
from benchmarks.loads import run_load

PARTITIONS = 10
_numbers = itertools.count()


def transactions(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """Milliseconds for one transaction, and for its commit alone; the broker's CPU seconds per transaction.

    The mode is that of the topic, and so applies to markers as to records. Odradek always syncs the transaction log,
    Kafka never does.
    """
    broker = side.broker
    with broker.topic(PARTITIONS, mode) as topic:
        before = broker.cpu_seconds()
        done = run_load(
            "transactions",
            "commit",
            bootstrap=broker.bootstrap,
            topic=topic,
            partitions=PARTITIONS,
            transactional_id=f"bench-{os.getpid()}-{next(_numbers)}",
            duration_s=effort.duration_s,
        )
        cpu_s = broker.cpu_seconds() - before
    return {"whole": done["whole"], "commit": done["commit"], CPU: cpu_s / done["transactions"]}


CASES = (
    Case(
        "transactions",
        "a transaction over 10 partitions",
        (
            Figure("whole", "ms, begin to committed (limit: ratio 2)", higher_is_better=False),
            Figure("commit", "ms, the commit alone", higher_is_better=False),
        ),
        transactions,
        as_shipped=True,
    ),
)
