"""What all tests share: their tiers, their order, and signals as in the foreground."""

import gc
import signal

import pytest

from compat_tests.history.report import write_served
from compat_tests.needs import FACILITIES
from compat_tests.order import long_files_first
from compat_tests.spark_session import quick_to_start
from tests.tier_watch import TierWatch
from tests.tiers import TIERS, mark

quick_to_start()


def _signals_as_in_the_foreground() -> None:
    """Lets what the tests start have the default signals, also if this run ignores some, as `nohup make test &` does.

    A program inherits what is ignored, but no handler: so it is ignored here by a handler.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks of the tiers."""
    _signals_as_in_the_foreground()
    for name, meaning in (FACILITIES | TIERS).items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(TierWatch())


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Before `-m` selects."""
    mark([item], float(item.config.getini("timeout")))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Called after the random order is set."""
    long_files_first(items)


def pytest_collection_finish() -> None:
    """Keeps what collection made out of later collections of garbage, which would take half a second each."""
    _freeze()


def pytest_runtest_logfinish() -> None:
    """Does so again after a test that changed it."""
    if gc.get_freeze_count() == 0:
        _freeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what the histories measured, if any ran."""
    write_served(terminalreporter)
