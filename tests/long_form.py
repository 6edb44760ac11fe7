"""Tests with two forms: `make test` runs the short one, `make torture` the long one.

A test that has both is marked `torture` and takes its number of rounds from here.
"""

import os
from collections.abc import Sequence

LONG = os.environ.get("ODRADEK_LONG_TESTS") == "1"
"""True if this run uses the long forms."""


def rounds(short: int, long: int) -> int:
    """Returns the number of rounds in the form of this run."""
    return long if LONG else short


def seeds(short: Sequence[int], many: int) -> Sequence[int]:
    """Returns the seeds of a simulation: `short`, in the long form 0 to `many`, or those of the variable ODRADEK_SEEDS.

    `ODRADEK_SEEDS=1000` are the seeds 0 to 999, `ODRADEK_SEEDS=5000-6000` those from 5000 to 5999.
    """
    wanted = os.environ.get("ODRADEK_SEEDS")
    if not wanted:
        return [*short, *range(len(short), rounds(len(short), many))]
    first, dash, end = wanted.rpartition("-")
    return range(int(first) if dash else 0, int(end))


LONG_TURN_MS = rounds(100, 200)
"""`odradek.loop.stall.warn.ms` for tests whose long form doubles the size of one request.

The controller decides on one topic in one turn: with 10,000 partitions, the maximum of a request, that takes 80 to
126 ms of the processor, and the leaving of a thousand members of a group as much.
"""
