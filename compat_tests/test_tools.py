"""The tools that work with Odradek according to docs/tools.md: each runs against a new broker and does its main work.

Python tools run in separate environments, so that their dependencies do not conflict with ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import java_properties
from compat_tests.comparison import is_missing
from compat_tests.processes import ROOT, Daemon, free_port, wait_for
from compat_tests.real_kafka import jars_folder, java_command
from odradek import TestBroker, broker

TOOLS = Path(__file__).parent / "tools"
PAGE = (ROOT / "docs" / "tools.md").read_text()
QUIXSTREAMS, FAUST = "quixstreams==3.28.1", "faust-streaming==0.15.3"
AMOUNTS = [("anna", 1), ("bedrich", 2), ("anna", 3), ("bedrich", 4), ("anna", 5), ("bedrich", 6)]
TOTALS = {"anna": [1, 4, 9], "bedrich": [2, 6, 12]}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def kafka() -> Iterator[TestBroker]:
    with broker() as running:
        yield running


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Any]:
    """Starts programs whose output goes to a file; they are killed at the end."""
    started: list[Daemon] = []

    def start(command: list[str], **variables: str) -> Daemon:
        daemon = Daemon(command, log=tmp_path / f"daemon-{len(started)}.log", env=variables)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()


def python_with(requirement: str) -> str:
    """The Python of an environment with a tool and its dependencies and nothing of ours; made once, then kept."""
    folder = ROOT / ".cache" / "tools" / f"{requirement}-{sys.implementation.cache_tag}"
    if not folder.exists():
        uv = shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")
        made = Path(tempfile.mkdtemp(prefix="new-", dir=_folder(folder.parent)))
        for command in (
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(made)],
            [uv, "pip", "install", "--quiet", "--python", str(made / "bin" / "python"), requirement],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
            assert done.returncode == 0, f"{requirement} cannot be installed: {done.stderr}"
        made.rename(folder)
    return str(folder / "bin" / "python")


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def send_amounts(kafka: TestBroker) -> None:
    from kafka import KafkaProducer

    kafka.create_topic("amounts", partitions=2)
    kafka.create_topic("totals", partitions=2)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for key, amount in AMOUNTS:
        producer.send("amounts", key=key.encode(), value=json.dumps(amount).encode())
    producer.close()


def read(kafka: TestBroker, topic: str, count: int) -> list[tuple[str | None, Any]]:
    """Waits for the first `count` committed records, and returns them."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed",
        consumer_timeout_ms=120_000,
    )  # fmt: skip
    try:
        records = [next(consumer) for _ in range(count)]
    finally:
        consumer.close()
    return [(record.key.decode() if record.key else None, json.loads(record.value)) for record in records]


def by_key(records: list[tuple[str | None, Any]]) -> dict[str | None, list[Any]]:
    found: dict[str | None, list[Any]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found


def test_quixstreams(kafka: TestBroker, tmp_path: Path):
    send_amounts(kafka)
    program = [str(TOOLS / "quix_totals.py"), kafka.bootstrap, "amounts", "totals", "6", str(tmp_path / "state")]
    done = subprocess.run(
        [python_with(QUIXSTREAMS), *program], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert by_key(read(kafka, "totals", 6)) == TOTALS


def test_faust(kafka: TestBroker, daemons, tmp_path: Path):
    send_amounts(kafka)
    options = ["--datadir", str(tmp_path / "faust"), "worker", "--without-web"]
    worker = daemons(
        [python_with(FAUST), str(TOOLS / "faust_totals.py"), *options],
        BOOTSTRAP=kafka.bootstrap, FROM="amounts", TO="totals",
    )  # fmt: skip
    assert by_key(read(kafka, "totals", 6)) == TOTALS, worker.tail()
    # the table's own topic has the newest total of each key
    assert {key: totals[-1] for key, totals in by_key(read(kafka, "faust-totals-totals-changelog", 6)).items()} == {
        '"anna"': 9, '"bedrich"': 12
    }  # fmt: skip


def test_connect_standalone(kafka: TestBroker, daemons, tmp_path: Path):
    """A file goes into a topic by one connector, and from there into another file by a second one."""
    if is_missing("Java"):
        pytest.skip("NO JAVA: Kafka Connect cannot run (ODRADEK_NO_JAVA=1)")
    lines = "".join(f"line {number}\n" for number in range(100))
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(lines)
    worker = {
        "bootstrap.servers": kafka.bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "500",
        "listeners": f"HTTP://127.0.0.1:{free_port()}",
    }
    connectors = {
        "source": {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"},
        "sink": {"connector.class": "FileStreamSink", "file": str(sink), "topics": "lines"},
    }
    files = []
    for name, settings in {"worker": worker, **connectors}.items():
        files.append(tmp_path / f"{name}.properties")
        own = {} if name == "worker" else {"name": name, "tasks.max": "1"}
        files[-1].write_text(java_properties({**own, **settings}))
    jars = [f"{jars_folder()}/kafka/*", *map(str, jars_folder().glob("connect-file-*.jar"))]
    started = daemons(
        [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(jars),
         "org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files)]
    )  # fmt: skip

    def copied() -> bool:
        assert started.process.poll() is None, started.tail()
        return sink.exists() and sink.read_text() == lines

    wait_for(copied, "the sink's file", timeout_s=200)


@pytest.mark.parametrize("requirement", [QUIXSTREAMS, FAUST])
def test_the_page_names_the_versions(requirement):
    name, version = requirement.split("==")
    assert f"| {name} {version} |" in PAGE
