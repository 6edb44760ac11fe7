"""Settings of all tests: properties have no deadline per example.

Spark's JVMs use the quick compiler only, and files with long tests come first.
"""

import pytest
from hypothesis import settings

from compat_tests.history.report import write_served
from compat_tests.order import long_files_first
from compat_tests.spark_session import quick_to_start

settings.register_profile("odradek", settings.default, deadline=None)
settings.load_profile("odradek")
quick_to_start()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Called after the random order is set."""
    long_files_first(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    write_served(terminalreporter)
