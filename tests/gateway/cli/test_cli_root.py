"""The root command: help, exit codes, imports, and its end when brokers or pipes go away."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from gateway_brokers import ThreadBroker
from gateway_client import RawClient
from gateway_groups import commit_error, find

from odradek.gateway.cli.main import COMMANDS, VERSION, cli

HELP_CASES = [[], *[[name] for name in COMMANDS]]
HELP_CASES += [["topics", name] for name in ("list", "create", "describe", "alter", "delete")]
HELP_CASES += [["groups", name] for name in ("list", "describe", "delete", "reset-offsets")]
HELP_CASES += [["transactions", name] for name in ("list", "describe", "describe-producers", "abort", "find-hanging")]


@pytest.mark.parametrize("path", HELP_CASES, ids=" ".join)
def test_every_help_has_an_example(path):
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="odradek")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"odradek {' '.join(path)}" in result.output


def test_the_root_help_lists_commands_and_exit_codes():
    text = CliRunner().invoke(cli, ["--help"]).output
    assert all(summary in text for summary in COMMANDS.values())
    assert "130  interrupted" in text


def test_version():
    assert CliRunner().invoke(cli, ["--version"]).output == f"odradek {VERSION}\n"
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_without_arguments_the_first_steps_are_printed():
    result = CliRunner().invoke(cli, [], prog_name="odradek")
    assert result.exit_code == 0
    named = re.findall(r"odradek ([a-z]+)", result.stdout)
    assert named == ["demo", "serve", "produce", "consume"]
    assert "odradek --help" in result.stdout


@pytest.mark.parametrize(("typed", "meant"), [("sreve", "serve"), ("topic", "topics"), ("dmo", "demo")])
def test_an_unknown_command_is_wrong_usage_and_names_the_similar_one(typed, meant):
    result = CliRunner().invoke(cli, [typed])
    assert result.exit_code == 2
    assert f"did you mean `odradek {meant}`?" in result.stderr


def test_an_unknown_command_that_is_like_none():
    result = CliRunner().invoke(cli, ["xyzzy"])
    assert result.exit_code == 2
    assert "No such command 'xyzzy'" in result.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], *[[name, "--help"] for name in ("serve", "consume", "groups", "demo")]]
)
def test_help_imports_neither_kafka_nor_rich_nor_trio(arguments):
    program = (
        "import sys\nfrom odradek.gateway.cli.main import cli\n"
        f"cli({arguments!r}, standalone_mode=False)\n"
        "heavy = {'kafka', 'confluent_kafka', 'rich', 'trio', 'lmdb'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=60)


def test_no_listener_at_the_bootstrap_address(unused_port):
    result = CliRunner().invoke(cli, ["topics", "list", "-b", f"127.0.0.1:{unused_port}"])
    assert result.exit_code == 3
    assert f"no broker answers at 127.0.0.1:{unused_port}: Connection refused" in result.stderr
    assert "odradek serve" in result.stderr


def test_something_else_at_the_bootstrap_address(mute_listener):
    result = CliRunner().invoke(cli, ["topics", "list", "-b", mute_listener, "--timeout", "0.5"])
    assert result.exit_code == 3
    assert "did not answer as a Kafka broker within 0.5 s" in result.stderr


# kafka-python drops the socket of a reconnection without closing it if the client is closed meanwhile.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("arguments", [["topics", "create", "t"], ["groups", "delete", "g"]])
def test_an_administrative_request_that_is_never_answered(arguments):
    with ThreadBroker() as broker:
        with RawClient(broker.address) as client:
            client.create_topic("u")
            assert find(client, "g") == 0
            assert commit_error(client, "g", 1, "u") == 0
        broker.env.hold()
        result = CliRunner().invoke(cli, [*arguments, "-b", f"127.0.0.1:{broker.port}", "--timeout", "2"])
        broker.env.release()
    assert result.exit_code == 1
    assert "no answer from the cluster within 2 s (--timeout)" in result.stderr


def test_an_address_that_is_none():
    assert CliRunner().invoke(cli, ["topics", "list", "-b", "host:port"]).exit_code == 2


HEARING_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("odradek", run_name="__main__", alter_sys=True)
"""
"""`python -m odradek` that handles SIGINT even if started by a background job of a shell, which ignores SIGINT."""


def spawn(bootstrap: str, *arguments: str, **options) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", HEARING_CTRL_C, *arguments, "--bootstrap", bootstrap]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_ctrl_c_ends_a_following_consumer_with_130(bootstrap, odradek, topic):
    odradek("produce", topic, stdin="first\n")
    with spawn(bootstrap, "consume", topic, "--follow") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"first\n"
        following.send_signal(signal.SIGINT)
        _, stderr = following.communicate(timeout=30)
    assert following.returncode == 130
    assert stderr == b"odradek: interrupted\n"


def test_ctrl_c_ends_a_producer_after_what_it_sent(bootstrap, odradek, topic):
    with spawn(bootstrap, "produce", topic, stdin=subprocess.PIPE) as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"kept\n")
        producing.stdin.flush()
        while odradek("consume", topic).stdout != "kept\n":
            assert producing.poll() is None
        producing.send_signal(signal.SIGINT)
        _, stderr = producing.communicate(timeout=30)
    assert producing.returncode == 130
    assert b"interrupted; 1 record (" in stderr


def test_a_following_consumer_notices_that_its_reader_went(bootstrap, odradek, topic):
    odradek("produce", topic, stdin="first\n")
    with spawn(bootstrap, "consume", topic, "--follow") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"first\n"
        following.stdout.close()
        assert following.wait(30) == 141
        assert following.stderr is not None
        assert following.stderr.read() == b""


def test_colours_only_on_a_terminal_that_supports_them(bootstrap, odradek, topic):
    assert "\x1b" not in odradek("topics", "list", "--long").stdout
    assert "\x1b[1mTOPIC" in in_terminal(bootstrap, {})
    assert "\x1b[1m" not in in_terminal(bootstrap, {"NO_COLOR": "1"})


def in_terminal(bootstrap: str, environment: dict[str, str]) -> str:
    """Stdout of `topics list --long` in a pseudo-terminal, read as it comes: a terminal holds 4 KB."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "odradek", "topics", "list", "--long", "--bootstrap", bootstrap]
    environment = {**os.environ, "TERM": "xterm", **environment}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        with os.fdopen(theirs, "wb") as its:
            process = subprocess.Popen(command, stdout=its, stdin=subprocess.DEVNULL, env=environment)
        shown = b""
        with suppress(OSError):  # a terminal raises this when its other end is closed
            while some := terminal.read(4096):
                shown += some
    assert process.wait(60) == 0
    return shown.decode()
