"""Scripts as tests: blocks of commands, then `----`, then what they lead to, then an empty line.

`pytest --rewrite` puts what was decided in place of what was expected.
"""

SEPARATOR = "----"


def check_script(path, script, request):
    """Run the file's commands with `script.run`, which returns lines, and compare or rewrite."""
    text = path.read_text()
    decided = played(text, script)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(decided)
    else:
        assert decided == text


def played(text, script):
    """The whole text as it should be."""
    blocks = []
    for block in text.strip().split("\n\n"):
        commands = block.partition(f"\n{SEPARATOR}")[0].splitlines()
        done = [line for line in commands if line and not line.startswith("#")]
        blocks.append("\n".join([*commands, *([SEPARATOR, *script.run(done)] if done else [])]))
    return "\n\n".join(blocks) + "\n"
