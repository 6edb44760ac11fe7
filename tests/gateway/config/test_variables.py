"""`ODRADEK_*` variables: settings, options of `odradek serve`, variables of other programs, and unknown ones."""

import logging
import re
import subprocess
from pathlib import Path

import pytest

from odradek.gateway.config import ConfigError, Endpoint, load_config
from odradek.gateway.config.variables import AS_OPTIONS, DEVELOPMENT, READ_BY_COMMANDS, setting_name

ROOT = Path(__file__).parents[3]


def unknown(caplog: pytest.LogCaptureFixture, **environ: str) -> list[str]:
    with caplog.at_level(logging.WARNING):
        load_config(environ=environ)
    return [record.getMessage() for record in caplog.records]


def test_the_options_of_serve_have_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    environ = {"ODRADEK_LISTEN": "127.0.0.1:4711", "ODRADEK_ADVERTISE": "kafka.example.org:443", "ODRADEK_DATA": "a b"}
    config = load_config(environ=environ)
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 4711),)
    assert config.advertised_listeners == (Endpoint("PLAINTEXT", "kafka.example.org", 443),)
    assert config.storage_url == f"lmdb://{tmp_path}/a%20b"


def test_options_and_the_settings_own_variables_win_and_an_empty_variable_is_none():
    environ = {"ODRADEK_DATA": "d", "ODRADEK_STORAGE": "memory://", "ODRADEK_LISTEN": ""}
    assert load_config(environ=environ).storage_url == "memory://"
    assert load_config(environ=environ).listeners == (Endpoint("PLAINTEXT", "", 9092),)
    overrides = {"listeners": "PLAINTEXT://h:1"}
    environ = {"ODRADEK_LISTEN": "h:2", "KAFKA_LISTENERS": "PLAINTEXT://h:3"}
    assert load_config(environ=environ).listeners == (Endpoint("PLAINTEXT", "h", 2),)
    assert load_config(overrides=overrides, environ=environ).listeners == (Endpoint("PLAINTEXT", "h", 1),)


def test_a_wrong_value_names_its_variable():
    with pytest.raises(ConfigError, match=r"'PLAINTEXT://9092' is not of the form .*\(\$ODRADEK_LISTEN\)"):
        load_config(environ={"ODRADEK_LISTEN": "9092"})


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("ODRADEK_LISTNER", "did_you_mean=ODRADEK_LISTENERS"),
        ("ODRADEK_LSTEN", "did_you_mean=ODRADEK_LISTEN"),
        ("ODRADEK_NUM_PARTITION", "did_you_mean=ODRADEK_NUM_PARTITIONS"),
        ("ODRADEK_COMMIT_THREAD", "did_you_mean=ODRADEK_COMMIT_THREADS"),
        ("ODRADEK_QQQQQQ", "name=ODRADEK_QQQQQQ"),
    ],
)
def test_an_unknown_variable_gives_a_warning(caplog: pytest.LogCaptureFixture, variable: str, expected: str):
    (message,) = unknown(caplog, **{variable: "1"})
    assert message.startswith(f"unknown variable ignored name={variable}")
    assert message.endswith(expected)


def test_known_variables_bring_no_warning(caplog: pytest.LogCaptureFixture):
    assert unknown(caplog, **dict.fromkeys(DEVELOPMENT | READ_BY_COMMANDS, "x"), ODRADEK_NUM_PARTITIONS="3") == []


def test_every_variable_of_tests_and_scripts_is_known():
    """Add a missing variable to DEVELOPMENT in gateway/config/variables.py."""
    pattern = r"(environ(\.get\(|\[|, )|getenv\(|setenv\(|export |\$\{)[\"']?ODRADEK_[A-Z0-9_]+"
    folders = ["tests", "compat_tests", "scripts", "benchmarks", "examples", "docker"]
    listed = subprocess.run(
        ["git", "grep", "-hoE", pattern, "--", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    used = set(re.findall(r"ODRADEK_[A-Z0-9_]+", listed.stdout))
    assert "ODRADEK_JARS" in used
    unknown_ones = used - DEVELOPMENT - READ_BY_COMMANDS - {*AS_OPTIONS, "ODRADEK_NO_"}
    assert {variable for variable in unknown_ones if setting_name(variable) is None} == set()
