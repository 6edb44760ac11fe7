"""The collector rests inside the block and is afterwards what it was before, whatever happened."""

import gc

import pytest

from gateway.quick_import import collector_paused


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


def test_what_was_made_meanwhile_is_left_to_full_collections() -> None:
    with collector_paused():
        made = [[] for _ in range(10)]
    assert not any(made is each for young in (0, 1) for each in gc.get_objects(young))
    assert any(made is each for each in gc.get_objects(2))
    assert gc.get_freeze_count() == 0


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with collector_paused():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
