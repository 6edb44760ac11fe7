"""Runs every script in `consumer_scripts/`, in the form that `test_group_scripts` describes."""

from pathlib import Path

import pytest
from consumer_script import ConsumerScript
from test_group_scripts import run

SCRIPTS = sorted((Path(__file__).parent / "consumer_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    text = path.read_text()
    decided = run(text, ConsumerScript)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(decided)
    else:
        assert decided == text


def test_there_are_scripts():
    assert len(SCRIPTS) >= 10
