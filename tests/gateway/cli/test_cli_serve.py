"""`odradek serve` as a process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.gateway.cli.main import cli
from odradek.gateway.cli.serve import Address, load
from odradek.gateway.config import Endpoint

READY = re.compile(
    r"odradek (?P<version>\S+) ready in (?P<ms>\d+) ms at (?P<address>127\.0\.0\.1:\d+), storing in (?P<location>.+); "
    r"try: echo hello \| odradek produce greetings --bootstrap (?P=address)\n"
)


IN_MEMORY = ("--listen", "127.0.0.1:0", "--storage", "memory://")


def environment(**more: str) -> dict[str, str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("ODRADEK_", "KAFKA_"))}
    return {**clean, **more}


@contextmanager
def serving(*arguments: str, folder: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A broker process and its ready line; killed at the end if it is still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(**variables),
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            ready = READY.fullmatch(line)
            assert ready is not None, line + process.stderr.read()
            yield process, ready
        finally:
            process.kill()


def refused(*arguments: str, folder: Path, code: int = 1) -> str:
    """The stderr of a broker that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=environment(),
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def odradek(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(cli, arguments, input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_ready_line_then_a_drain_at_the_signal(tmp_path, number):
    with serving("--listen", "127.0.0.1:0", "--data", "data #1 100%", folder=tmp_path) as (process, ready):
        assert ready["location"] == str(tmp_path / "data #1 100%")
        odradek("produce", "greetings", "-b", ready["address"], stdin="hello\n")
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stdout == ""
    assert re.search(r"Z level=INFO logger=odradek\.gateway\.process stopping signal=" + number.name, stderr)


STOPPED_WHILE = """
import os, signal, sys

from odradek.gateway.cli import main, serve
from odradek.gateway.env.environment import ProductionEnvironment

load, open_store = serve.load, ProductionEnvironment.open_store

def stop():
    os.kill(os.getpid(), signal.SIGTERM)

def load_stopped(*arguments):
    stop()
    return load(*arguments)

def open_stopped(env, url):
    store = open_store(env, url)
    close = store.close
    store.close = lambda: (close(), print("closed", flush=True))
    stop()
    return store

if sys.argv.pop(1) == "loading":
    serve.load = load_stopped
else:
    ProductionEnvironment.open_store = open_stopped
main.cli()
"""


@pytest.mark.parametrize(("when", "prints"), [("loading", []), ("opening", ["closed"])])
def test_a_signal_during_the_start_ends_it_in_order(tmp_path, when, prints):
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE, when, "serve", "--listen", "127.0.0.1:0", "--data", "d"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith("odradek ")] == prints
    assert "stopping" in done.stderr
    assert "Traceback" not in done.stderr


def test_acknowledged_records_are_there_after_a_restart(tmp_path):
    options = ("--listen", "127.0.0.1:0", "--data", "d")
    with serving(*options, folder=tmp_path) as (process, ready):
        odradek("produce", "kept", "-b", ready["address"], stdin="1\n2\n3\n")
        process.kill()
        process.wait(30)
    with serving(*options, folder=tmp_path) as (_, ready):
        assert odradek("consume", "kept", "-b", ready["address"]) == "1\n2\n3\n"


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path):
    with serving("--listen", "127.0.0.1:0", "--data", "d", folder=tmp_path) as (process, _):
        said = refused("--listen", "127.0.0.1:0", "--data", "d", folder=tmp_path)
        assert said.count("\n") == 1
        assert f"{tmp_path / 'd'} is in use by the process with id {process.pid}" in said


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"other.txt": "not ours"}, "it holds other.txt"),
        ({"format": "odradek-lmdb 99\n"}, "has store format 'odradek-lmdb 99'"),
        ({"format": "odradek-lmdb 1\n", "properties.json": "{"}, "properties.json"),
    ],
)
@pytest.mark.parametrize("option", ["--data", "--storage"])
def test_a_directory_that_is_refused_is_left_as_it_was(tmp_path, files, why, option):
    data = tmp_path / "d"
    data.mkdir()
    for name, text in files.items():
        (data / name).write_text(text)
    before = (data.stat().st_mtime_ns, files)
    value = "d" if option == "--data" else f"lmdb://{data}"
    assert why in refused("--listen", "127.0.0.1:0", option, value, folder=tmp_path)
    assert (data.stat().st_mtime_ns, {path.name: path.read_text() for path in data.iterdir()}) == before


def test_a_port_in_use_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = refused("--listen", address, "--data", "d", folder=tmp_path)
    assert said == (
        f"odradek: cannot listen at {address}: the port is in use; choose another with --listen HOST:PORT\n"
    )


def test_bad_settings_are_named(tmp_path):
    said = refused("--set", "log.segment.bytes=many", folder=tmp_path)
    assert "log.segment.bytes" in said
    assert "command line" in said
    assert "unknown storage scheme 'tape'" in refused("--storage", "tape://x", folder=tmp_path)
    assert "advertise" in refused("--listen", "0.0.0.0:0", "--storage", "memory://", folder=tmp_path)
    (tmp_path / "broken.toml").write_text("= 1")
    assert "broken.toml is not valid TOML" in refused("--config", "broken.toml", folder=tmp_path)


def test_a_secured_configuration_gives_no_open_broker(tmp_path):
    (tmp_path / "server.properties").write_text(
        "listeners=PLAINTEXT://127.0.0.1:0\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    )
    said = refused("--config", "server.properties", "--storage", "memory://", folder=tmp_path)
    assert said.count("\n") == 1
    assert said.startswith("odradek: authorizer.class.name (server.properties:2) promises that clients may do only")


def test_wrong_usage_exits_with_2(tmp_path):
    assert "exclude each other" in refused("--data", "d", "--storage", "memory://", folder=tmp_path, code=2)
    assert "HOST:PORT" in refused("--listen", "9092", folder=tmp_path, code=2)
    assert "NAME=VALUE" in refused("--set", "x", folder=tmp_path, code=2)
    assert "does not exist" in refused("--config", "absent.properties", folder=tmp_path, code=2)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("[::1]:9092", ("::1", 9092)), ("::1:9092", ("::1", 9092)), ("host:1", ("host", 1)), (":0", ("", 0))],
)
def test_an_address_is_converted_to_host_and_port(text, pair):
    assert Address(0).convert(text, None, None) == pair


def test_an_ipv6_address_is_listened_to(tmp_path):
    command = [sys.executable, "-m", "odradek", "serve", "--listen", "[::1]:0", "--storage", "memory://"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()
    )
    with process:
        assert process.stdout is not None
        assert " at [::1]:" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=30)


def test_the_command_line_beats_environment_beats_file(tmp_path):
    (tmp_path / "server.properties").write_text("num.partitions=2\nlog.retention.ms=22\nlog.roll.ms=222\n")
    options = ("--config", "server.properties", "--set", "num.partitions=4", "--listen", "127.0.0.1:0")
    variables = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_MS": "33", "ODRADEK_STORAGE": "memory://"}
    with serving(*options, folder=tmp_path, **variables) as (_, ready):
        assert ready["location"] == "memory (gone when it stops)"
        odradek("topics", "create", "defaulted", "-b", ready["address"])
        described = odradek("topics", "describe", "defaulted", "--all-configs", "-b", ready["address"])
    assert "defaulted: 4 partitions" in described
    assert "retention.ms=33\n" in described
    assert "segment.ms=222\n" in described
    assert list(tmp_path.iterdir()) == [tmp_path / "server.properties"]


def test_listen_and_data_are_taken_from_the_environment(tmp_path):
    variables = {"ODRADEK_LISTEN": "127.0.0.1:0", "ODRADEK_DATA": "d", "ODRADEK_DATTA": "x"}
    with serving(folder=tmp_path, **variables) as (process, ready):
        assert ready["location"] == str(tmp_path / "d")
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    assert stderr.count("unknown variable ignored name=ODRADEK_DATTA did_you_mean=ODRADEK_DATA\n") == 1
    with serving("--data", "e", folder=tmp_path, **variables) as (_, ready):
        assert ready["location"] == str(tmp_path / "e")


def test_without_options_data_goes_to_a_directory_here_and_only_this_machine_is_listened_to(tmp_path):
    with serving("--set", "listeners=PLAINTEXT://127.0.0.1:0", folder=tmp_path) as (_, ready):
        assert ready["location"] == str(tmp_path / "odradek-data")


def test_clients_get_the_advertised_address(tmp_path):
    options = ("--listen", "127.0.0.1:0", "--advertise", "localhost:4711", "--storage", "memory://")
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=30)
    assert " at localhost:4711," in line


def test_serving_imports_neither_kafka_python_nor_rich():
    program = (
        "import sys\nimport odradek.gateway.cli.serve, odradek.gateway.process, odradek.gateway.config\n"
        "from odradek.gateway.cli.main import cli\ncli.get_command(None, 'serve')\n"
        "heavy = {'kafka', 'rich', 'odradek.gateway.cli.client'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_default_address_is_this_machine_only_and_any_setting_of_listeners_replaces_it(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(("ODRADEK_", "KAFKA_"))]:
        monkeypatch.delenv(name)
    assert load(None, {}).listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://10.0.0.1:1\n")
    assert load(tmp_path / "server.properties", {}).listeners == (Endpoint("PLAINTEXT", "10.0.0.1", 1),)
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://10.0.0.2:2")
    assert load(tmp_path / "server.properties", {}).listeners == (Endpoint("PLAINTEXT", "10.0.0.2", 2),)


def test_a_signal_that_ends_the_process_leaves_its_stack_in_the_log(tmp_path):
    with serving("--listen", "127.0.0.1:0", "--data", "d", folder=tmp_path) as (process, _):
        process.send_signal(signal.SIGBUS)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in stderr
    assert "most recent call first" in stderr


def test_a_second_ready_line_can_be_asked_for(tmp_path):
    with serving(*IN_MEMORY, "--ready-message", "[KafkaServer id=1] started", folder=tmp_path) as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline() == "[KafkaServer id=1] started\n"


def test_in_json_the_second_line_is_json_too(tmp_path):
    command = [
        sys.executable,
        "-m",
        "odradek",
        "serve",
        *IN_MEMORY,
        "--log-format",
        "json",
        "--ready-message",
        "started",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()) as process:
        try:
            assert process.stdout is not None
            messages = [json.loads(process.stdout.readline())["message"] for _ in range(2)]
        finally:
            process.kill()
    assert messages == ["ready", "started"]


def test_a_new_cluster_takes_the_id_that_is_set_and_no_other_afterwards(tmp_path):
    wanted, other = "4L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qk"
    arguments = ("--listen", "127.0.0.1:0", "--data", "data")
    with serving(*arguments, "--set", f"odradek.cluster.id={wanted}", folder=tmp_path) as (process, ready):
        assert cluster_id(ready["address"]) == wanted
        process.terminate()
        assert process.wait(60) == 0
    assert refused(*arguments, "--set", f"odradek.cluster.id={other}", folder=tmp_path).startswith(
        f"odradek: This storage belongs to cluster {wanted}, not to {other}. (odradek.cluster.id"
    )
    with serving(*arguments, folder=tmp_path) as (_, ready):
        assert cluster_id(ready["address"]) == wanted


def cluster_id(address: str) -> str:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=address)
    try:
        return admin.describe_cluster()["cluster_id"]
    finally:
        admin.close()
