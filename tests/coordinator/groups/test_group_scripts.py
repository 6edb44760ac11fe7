"""Runs every script of classic groups."""

from pathlib import Path

import pytest
from group_script import Script
from shard_scripts import check_script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    check_script(path, Script(), request)


def test_there_are_scripts():
    assert len(SCRIPTS) >= 10
