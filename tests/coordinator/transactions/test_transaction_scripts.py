"""Runs every script of transactions."""

from pathlib import Path

import pytest
from shard_scripts import check_script
from transaction_script import Script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    check_script(path, Script(), request)


def test_there_are_scripts():
    assert len(SCRIPTS) >= 6
