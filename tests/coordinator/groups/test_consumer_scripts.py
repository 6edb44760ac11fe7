"""Runs every script of consumer groups."""

from pathlib import Path

import pytest
from consumer_script import ConsumerScript
from shard_scripts import check_script

SCRIPTS = sorted((Path(__file__).parent / "consumer_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    check_script(path, ConsumerScript(), request)


def test_there_are_scripts():
    assert len(SCRIPTS) >= 10
