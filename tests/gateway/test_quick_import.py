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
