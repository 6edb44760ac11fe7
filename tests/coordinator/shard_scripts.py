"""Script tests: each block has commands, then `----`, then the expected output, then an empty line.

`pytest --rewrite` replaces the expected output by the actual one.
"""

SEPARATOR = "----"


def check_script(path, script, request):
    """Runs the file's commands with `script.run`, which returns lines; compares the output, or rewrites the file."""
    text = path.read_text()
    decided = played(text, script)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(decided)
    else:
        assert decided == text


def played(text, script):
    """The whole text with the actual output."""
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.partition(f"\n{SEPARATOR}")[0].splitlines()
        done = [line for line in commands if line and not line.startswith("#")]
        blocks.append("\n".join([*commands, *([SEPARATOR, *script.run(done)] if done else [])]))
    return "\n\n".join(blocks) + "\n"
