"""Runs every script in `scripts/`; `pytest --rewrite` puts what was decided in place of what was expected.

A script is blocks of commands, then `----`, then what they lead to, then an empty line.
"""

from pathlib import Path

import pytest
from transaction_script import Script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))
SEPARATOR = "----"


def run(text):
    script = Script()
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.partition(f"\n{SEPARATOR}")[0].splitlines()
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
    assert len(SCRIPTS) >= 6
