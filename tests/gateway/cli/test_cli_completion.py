"""`odradek completion`: the scripts, and completions by bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.gateway.cli.main import COMMANDS, cli

SHELLS = ("bash", "zsh", "fish")
COMPLETING = """
eval "$({odradek} completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_odradek_completion {odradek}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def odradek_on_path(tmp_path) -> Path:
    """The command of this checkout, whether or not odradek is installed."""
    command = tmp_path / "odradek"
    command.write_text(f"#!{sys.executable}\nfrom odradek.gateway.cli.main import main\nmain()\n")
    command.chmod(0o755)
    return command


def completed(command: Path, words: str, **variables: str) -> list[str]:
    """Bash's completions of the last of `words`."""
    script = COMPLETING.format(odradek=command, words=words)
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "PYTHONPATH": root, **variables},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_calls_back_and_the_help_tells_how_to_install_it(shell):
    script = CliRunner().invoke(cli, ["completion", shell], prog_name="odradek")
    assert script.exit_code == 0
    assert f"_ODRADEK_COMPLETE={shell}_complete" in script.stdout
    assert f"odradek completion {shell}" in CliRunner().invoke(cli, ["completion", "--help"]).stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_it(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(CliRunner().invoke(cli, ["completion", shell], prog_name="odradek").stdout)
    subprocess.run([shell, "-n", str(script)], check=True, timeout=60)


def test_bash_completes_commands_options_and_values(odradek_on_path):
    assert completed(odradek_on_path, "odradek ''") == list(COMMANDS)
    assert completed(odradek_on_path, "odradek top") == ["topics"]
    assert completed(odradek_on_path, "odradek topics de") == ["delete", "describe"]
    assert "--max-messages" in completed(odradek_on_path, "odradek consume --max")
    assert completed(odradek_on_path, "odradek produce --codec z") == ["zstd"]


def test_bash_completes_topics_of_a_running_broker(odradek_on_path, bootstrap, topic, unused_port):
    assert completed(odradek_on_path, f"odradek consume {topic[:-2]}", ODRADEK_BOOTSTRAP=bootstrap) == [topic]
    assert completed(odradek_on_path, f"odradek consume --bootstrap {bootstrap} {topic[:-2]}") == [topic]
    assert completed(odradek_on_path, "odradek consume t", ODRADEK_BOOTSTRAP=f"127.0.0.1:{unused_port}") == []


def test_completion_does_not_wait_for_a_broker_that_is_mute(odradek_on_path, mute_listener):
    assert completed(odradek_on_path, "odradek consume t", ODRADEK_BOOTSTRAP=mute_listener) == []


def test_an_unknown_shell_is_wrong_usage():
    refused = CliRunner().invoke(cli, ["completion", "csh"])
    assert refused.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in refused.stderr
