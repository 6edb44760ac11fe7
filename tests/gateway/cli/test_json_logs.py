"""`--log-format json`: every line is an object with the fields of its message and its traceback."""

import json
import logging
import re
import subprocess
import sys

import pytest
from test_cli_serve import environment, odradek

from odradek.gateway.cli.json_logs import JsonFormatter


def formatted(message, *values, **more):
    record = logging.LogRecord("odradek.x", logging.WARNING, "x.py", 1, message, values, more.get("exc_info"))
    text = JsonFormatter().format(record)
    assert "\n" not in text
    return json.loads(text)


@pytest.mark.parametrize(
    ("message", "values", "text", "fields"),
    [
        ("draining node_id=%d", (1,), "draining", {"node_id": 1}),
        ("closing peer=%s cause=%s", ("h:1", "a b=c"), "closing", {"peer": "h:1", "cause": "a b=c"}),
        ("refused open=%d cause=%s (raise %s)", (3, "x", "it"), "refused (raise it)", {"open": 3, "cause": "x"}),
        ("topic=%s was deleted", ("t",), "topic=t was deleted", {"topic": "t"}),
        ("marker partition=%s, tried again", ("t-0",), "marker partition=t-0, tried again", {"partition": "t-0"}),
        ("took %d%% in ms=%.1f", (7, 1.25), "took 7% in", {"ms": 1.25}),
        ("set level=%s key=%r", ("x", b"y"), "set", {"level_": "x", "key": "b'y'"}),
        ("no values, 100% plain a=b", (), "no values, 100% plain a=b", {}),
        ("two\nlines cause=%s", ("é\n",), "two\nlines", {"cause": "é\n"}),
    ],
)
def test_the_parts_of_a_message_become_fields(message, values, text, fields):
    document = formatted(message, *values)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document.pop("time"))
    assert document == {"level": "WARNING", "logger": "odradek.x", "message": text, **fields}


def test_a_traceback_is_a_field():
    try:
        {}["gone"]
    except LookupError:
        document = formatted("internal error peer=%s", "h:1", exc_info=sys.exc_info())
    assert document["exception"].startswith("Traceback (most recent call last):\n")
    assert document["exception"].endswith("KeyError: 'gone'")


def test_named_values_and_wrong_formats_are_left_as_they_are():
    assert formatted("a=%(a)s", {"a": 1})["message"] == "a=1"


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_broker_writes_only_json(tmp_path, by_variable):
    options = [] if by_variable else ["--log-format", "json"]
    variables = {"ODRADEK_LOG_FORMAT": "json"} if by_variable else {}
    command = [sys.executable, "-m", "odradek", "serve", "--listen", "127.0.0.1:0", "--storage", "memory://", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(**variables), **pipes) as process:
        ready = json.loads(process.stdout.readline())
        odradek("produce", "greetings", "-b", ready["bootstrap"], stdin="hello\n")
        process.terminate()
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (0, "")
    assert (ready["message"], ready["level"]) == ("ready", "INFO")
    assert ready["storage"] == "memory (gone when it stops)"
    assert isinstance(ready["ready_ms"], int)
    logged = [json.loads(line) for line in stderr.splitlines()]
    stopping = next(each for each in logged if each["message"] == "stopping")
    assert (stopping["signal"], stopping["logger"]) == ("SIGTERM", "odradek.gateway.process")


def test_a_start_that_fails_is_an_object_too(tmp_path):
    command = [sys.executable, "-m", "odradek", "serve", "--log-format", "json", "--set", "num.partitions=0"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    (failure,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (failure["message"], failure["level"]) == ("cannot start", "ERROR")
    assert "num.partitions" in failure["cause"]
