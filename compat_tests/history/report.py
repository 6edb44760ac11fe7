"""The table at the end of a run with the times that clients waited to be served again."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.history.served import reported, table


def write_served(terminal: pytest.TerminalReporter) -> None:
    """Print the measurements of this run's tests, if there are any."""
    reports: list[Any] = [report for group in terminal.stats.values() for report in group]
    measured = reported(reports)
    if not measured:
        return
    terminal.section("seconds until clients were served again (longest pause, where it was later)")
    for line in table(measured):
        terminal.write_line(line)
