"""Runs every script in `scripts/`; `pytest --rewrite` puts what was decided in place of what was expected.

A script is blocks of commands, then `----`, then what they lead to, then an empty line.
"""

from pathlib import Path

import pytest
from group_script import Script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
SEPARATOR = "----"


def parse(text):
    """The blocks as (comments and commands, expected lines)."""
    for block in text.strip().split("\n\n"):
        commands, _, expected = block.partition(f"\n{SEPARATOR}")
        yield commands.splitlines(), expected.strip("\n").splitlines()


def run(text, make=Script):
    script = make()
    blocks = []
    for commands, _ in parse(text):
        done = [line for line in commands if line and not line.startswith("#")]
        blocks.append("\n".join([*commands, *([SEPARATOR, *script.run(done)] if done else [])]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    text = path.read_text()
    decided = run(text)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(decided)
    else:
        assert decided == text


def test_there_are_scripts():
    assert len(SCRIPTS) >= 10
