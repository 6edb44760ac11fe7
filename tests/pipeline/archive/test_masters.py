"""One job file on a single machine, on separate executors, one of which is killed, and on a standalone cluster."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.pipeline import open_table, read_table
from odradek.pipeline.connection import Connection
from odradek.pipeline.java import find_java
from tests.long_form import rounds
from tests.pipeline.archive.topics import counts_by_offset, create, produce
from tests.pipeline.killing import chance

ROOT = Path(__file__).parents[3]
JOB = ROOT / "examples" / "pipeline_archive.py"
NO_JAVA = os.environ.get("ODRADEK_NO_JAVA") == "1"
pytestmark = [pytest.mark.skipif(NO_JAVA, reason="no Java here (ODRADEK_NO_JAVA=1)"), pytest.mark.timeout(900)]
EXECUTOR = "CoarseGrainedExecutorBackend"
READINGS = [b'{"city":"%s","degrees":%d}' % (b"Prague" if n % 2 else b"Brno", n % 30) for n in range(2_000)]


def environment(connection: Connection, path: Path, master: str) -> dict[str, str]:
    named = {"BOOTSTRAP": connection.bootstrap, "TOPIC": "t", "TABLE": str(path), "MASTER": master}
    return {**os.environ, **named, "PYSPARK_PYTHON": sys.executable, "SPARK_EXECUTOR_MEMORY": "512m"}


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers on this machine; yields the master's URL."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    java = str(find_java().resolve().parent.parent)
    own = {**os.environ, "JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    work = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / "work"), url]
    log = folder / "cluster.log"
    started: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("wb") as out:
            commands = [master, *([f"{deploy}.worker.Worker", *work] for _ in range(2))]
            started += [subprocess.Popen([str(program), *words], stdout=out, stderr=out, env=own) for words in commands]
        while log.read_text().count("Registering worker") < 2:
            assert all(one.poll() is None for one in started), log.read_text()[-3000:]
            time.sleep(0.2)
        yield url
    finally:
        for one in started:
            one.terminate()
            one.wait()


def run(connection: Connection, path: Path, master: str) -> str:
    done = subprocess.run(
        [sys.executable, str(JOB)],
        env=environment(connection, path, master),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not re.search(r"\bWARN [A-Z]", done.stderr), done.stderr
    return done.stdout


def check(output: str, path: Path) -> None:
    assert re.search(r"Brno\|\s+28\|", output), output
    assert re.search(r"Prague\|\s+29\|", output), output
    assert open_table(path).records == 2_000


def test_the_example_on_this_machine_and_on_a_standalone_cluster(connection, tmp_path):
    create(connection, "t", 2)
    produce(connection, "t", READINGS)
    check(run(connection, tmp_path / "here", "local[2]"), tmp_path / "here")
    with standalone_cluster(tmp_path) as url:
        check(run(connection, tmp_path / "there", url), tmp_path / "there")


@pytest.mark.torture
def test_on_local_cluster_executors_that_are_killed_cost_and_double_nothing(spark, connection, tmp_path):
    """On local-cluster each executor is a process: one is killed, in the long form one after another."""
    random = chance()
    create(connection, "t", 2)
    produce(connection, "t", READINGS)
    path = tmp_path / "table"
    process = subprocess.Popen(
        [sys.executable, str(JOB)],
        env=environment(connection, path, "local-cluster[2,1,1024]"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        killed = 0
        while killed < rounds(1, 6) and (executors := running_executors(process)):
            time.sleep(random.uniform(0, 5))
            with contextlib.suppress(ProcessLookupError):  # the job has ended
                os.kill(random.choice(executors), signal.SIGKILL)
                killed += 1
        output, errors = process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors[-3000:]
    print(f"{killed} executors were killed")
    assert killed
    check(output, path)
    assert set(counts_by_offset(read_table(spark, path)).values()) == {1}


def running_executors(process: "subprocess.Popen[str]") -> list[int]:
    """The process ids of the session's executors, once there is one; none when the job has ended."""
    while process.poll() is None:
        listed = subprocess.run(
            ["ps", "-ww", "-s", str(process.pid), "-o", "pid=,args="], capture_output=True, text=True, check=False
        )
        if found := [int(line.split()[0]) for line in listed.stdout.splitlines() if EXECUTOR in line]:
            return found
        time.sleep(0.1)
    return []
