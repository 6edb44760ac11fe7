"""The garbage collector is off inside the block, and restored afterwards, also after errors."""

import gc
import sys
from types import ModuleType

import pytest

from odradek.gateway.quick_import import collector_paused


@pytest.fixture(autouse=True)
def _nothing_frozen() -> None:
    """What the tests' collection has frozen is let go; the next test freezes it again (conftest.py)."""
    gc.unfreeze()


def fail_paused() -> None:
    with collector_paused():
        assert not gc.isenabled()
        raise ImportError


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_what_it_was(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ImportError):
            fail_paused()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def is_young(made: object) -> bool:
    return any(made is each for generation in (0, 1) for each in gc.get_objects(generation))


def test_what_an_import_has_made_is_left_to_full_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector_paused():
        made: list[object] = []
        monkeypatch.setitem(sys.modules, "imported_meanwhile", ModuleType("imported_meanwhile"))
    assert not is_young(made)
    assert any(made is each for each in gc.get_objects(2))
    assert gc.get_freeze_count() == 0


def test_where_nothing_was_imported_garbage_stays_young() -> None:
    with collector_paused():
        made: list[object] = []
    assert is_young(made)


def test_what_the_program_has_frozen_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()
    try:
        with collector_paused():
            monkeypatch.setitem(sys.modules, "imported_meanwhile", ModuleType("imported_meanwhile"))
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
