"""Spark's start: invalid masters, failures in one line, and a terminal without Spark's welcome message."""

import os
import pty
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from odradek.gateway.cli.main import cli
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.session import spark_session
from odradek.pipeline.starting import check_answers, check_master, start


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[2]",
        "local[2, 3]",
        "local-cluster[2,1,1024]",
        "spark://h:7077,i:7077",
        "yarn",
        "k8s://u",
    ],
)
def test_masters_are_taken(master):
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "nonsense", "local[", "local[0]", "spark://host", "http://host:7077", "local[2] x"]
)
def test_what_is_no_master_is_refused(master):
    with pytest.raises(PipelineError, match=r"is no master of Spark, which is local\[\*\]"):
        check_master(master)


def test_the_command_reports_it_in_one_line(tmp_path):
    done = CliRunner().invoke(cli, ["pipeline", "archive", "t", "--to", str(tmp_path / "t"), "--master", "nonsense"])
    assert done.exit_code == 1
    assert done.stderr == (
        "odradek: 'nonsense' is no master of Spark, which is local[*], local[2], spark://HOST:PORT, yarn or k8s://URL\n"
    )


def test_two_masters_are_wrong_usage(tmp_path):
    command = ["pipeline", "archive", "t", "--to", str(tmp_path / "t"), "--master", "local[2]"]
    done = CliRunner().invoke(cli, [*command, "--conf", "spark.master=local[3]"])
    assert (done.exit_code, "--master local[2] contradicts --conf spark.master=local[3]" in done.stderr) == (2, True)


def test_the_master_in_the_settings_is_the_one_that_is_checked():
    with pytest.raises(PipelineError, match="'nonsense' is no master of Spark"):
        spark_session(master="local[2]", conf={"spark.master": "nonsense"})


def test_an_absent_cluster_is_reported_before_spark_is_started():
    with socket.create_server(("127.0.0.1", 0)) as here:
        address = f"127.0.0.1:{here.getsockname()[1]}"
        check_answers(f"spark://127.0.0.1:1,{address}")
    with pytest.raises(PipelineError, match=f"no master of Spark answers at spark://{address}: .*Connection refused"):
        check_answers(f"spark://{address}")
    check_answers("local[*]")


class Failing:
    """A builder whose Spark does not start."""

    def __init__(self, said):
        self.said = said

    def getOrCreate(self):  # noqa: N802 - as PySpark names it
        from py4j.protocol import Py4JError

        raise Py4JError(self.said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: Could not start\n\tat org.apache.spark.SparkContext$.x(Spark.scala)"
            "\nCaused by: java.net.BindException: Cannot assign requested address\n\tat java.base/sun.nio.ch.Net.bind0",
            "Cannot assign requested address",
        ),
        ("Answer from Java side is empty", "Answer from Java side is empty"),
    ],
)
def test_a_start_that_fails_is_reported_with_its_last_cause(said, message):
    with pytest.raises(PipelineError, match=f"^Spark does not start: {message}$"):
        start(Failing(said))


PROGRAM = """
import subprocess, sys
from odradek.pipeline.starting import without_start_lines

lines = [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "WARNING: something else",
    'Setting default log level to "WARN".',
    "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).",
    "ERROR a real one",
]
echo = "import sys; print(*sys.argv[1:], sep=chr(10), file=sys.stderr); input(); print('later', file=sys.stderr)"
with without_start_lines():
    jvm = subprocess.Popen([sys.executable, "-c", echo, *lines], stdin=subprocess.PIPE)
print("from Python", file=sys.stderr)
jvm.communicate(b"go on")
"""


def stderr_of(program, *, terminal):
    ours, its = pty.openpty() if terminal else os.pipe()
    with subprocess.Popen([sys.executable, "-c", program], stderr=its) as process:
        os.close(its)
        shown = b""
        while chunk := read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().split("\r\n" if terminal else "\n")


def read(descriptor):
    try:
        return os.read(descriptor, 4096)
    except OSError:  # a terminal raises this when its other end is closed
        return b""


def test_a_terminal_does_not_see_the_greeting():
    shown = stderr_of(PROGRAM, terminal=True)
    assert sorted(line for line in shown if line) == [
        "ERROR a real one",
        "WARNING: something else",
        "from Python",
        "later",
    ]


def test_a_file_gets_every_line():
    assert len(stderr_of(PROGRAM, terminal=False)) == 1 + 7
