"""Tests with two forms: `make test` runs the short one, `make torture` the long one.

A test that has both is marked `torture` and takes its number of rounds from here.
"""

import os

LONG = os.environ.get("ODRADEK_LONG_TESTS") == "1"
"""Whether this run is of the long forms."""


def rounds(short: int, long: int) -> int:
    """Return how many rounds a test runs in the form that was asked for."""
    return long if LONG else short
