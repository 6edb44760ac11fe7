"""The order of a run in two processes that take whole files: long files first, so that none is left for the end."""

from __future__ import annotations

import pytest


def long_files_first(items: list[pytest.Item]) -> None:
    """Move the files with the longest time limits to the front; the rest stays in the order that chance gave it.

    A test that may take longer than others says so by its `timeout` mark, so there is no list of files to keep.
    pytest-xdist keeps this order with `--no-loadscope-reorder`: by itself it puts the files with the fewest tests last,
    which are those with the longest ones.
    """
    limits: dict[str, float] = {}
    for item in items:
        path = item.nodeid.partition("::")[0]
        limits[path] = max(limits.get(path, 0.0), _limit(item))
    items.sort(key=lambda item: -limits[item.nodeid.partition("::")[0]])


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    if mark is None:
        return 0.0
    return float(mark.args[0] if mark.args else mark.kwargs.get("timeout", 0.0))
