"""Runs every script of the controller of several brokers."""

from pathlib import Path

import pytest
from cluster_script import Script
from shard_scripts import check_script

SCRIPTS = sorted((Path(__file__).parent / "cluster_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    check_script(path, Script(), request)


def test_there_are_scripts():
    assert len(SCRIPTS) >= 8
