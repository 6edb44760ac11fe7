"""The order of files in a run by two processes: long files first, so that none is left for the end."""

from __future__ import annotations

import pytest


def long_files_first(items: list[pytest.Item]) -> None:
    """Moves the files with the longest time limits to the front; the rest stays in its random order.

    A test's time limit is its `timeout` mark, so there is no list of files to maintain. pytest-xdist keeps this order
    with `--no-loadscope-reorder`: its default puts the files with the fewest tests last, and these have the longest
    tests.
    """
    limits: dict[str, float] = {}
    for item in items:
        path = item.nodeid.partition("::")[0]
        limits[path] = max(limits.get(path, 0.0), limit_s(item))
    items.sort(key=lambda item: -limits[item.nodeid.partition("::")[0]])


def limit_s(item: pytest.Item) -> float:
    """The time limit that a test states; 0.0 if it has none."""
    mark = item.get_closest_marker("timeout")
    if mark is None:
        return 0.0
    return float(mark.args[0] if mark.args else mark.kwargs.get("timeout", 0.0))
