"""`odradek demo` from beginning to end, and the parts that make its counts exact."""

import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from odradek.gateway.cli.main import cli
from odradek.pipeline.connection import Connection
from odradek.pipeline.demo.flights import Totals, flights, totals_of
from odradek.pipeline.demo.member import State
from odradek.pipeline.demo.processes import DemoError, clean_environment
from odradek.pipeline.demo.producer import Producer
from odradek.pipeline.demo.spark_table import missing as missing_for_spark
from odradek.pipeline.demo.story import CARRIERS, Demo
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.wire_socket import ConnectionLostError
from odradek.wire.messages.produce import ProduceRequest

WITH_SETTINGS = {"ODRADEK_STORAGE": "memory://", "KAFKA_NUM_PARTITIONS": "7"}
"""Settings of the user's own broker, which the demo's must not have."""


def run(*options: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek", "demo", *options]
    environment = clean_environment() | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.timeout(240)
def test_nothing_is_lost_although_a_consumer_and_the_broker_are_killed(tmp_path):
    done = run("--no-spark", TMPDIR=str(tmp_path), **WITH_SETTINGS)
    killed = re.search(r"kill -9 consumer-2, which had partitions ([\d, ]+);", done.stdout)
    assert killed, done.stdout
    for partition in killed[1].split(", "):
        assert re.search(rf"partition {partition}: consumer-2 → consumer-[13]", done.stdout), done.stdout
    assert "kill -9 of the broker" in done.stdout
    assert "Spark is left out: --no-spark" in done.stdout
    assert "file, group, log, SQL agree: nothing lost, nothing twice" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_its_processes_and_removes_its_data(tmp_path, number, code):
    command = [sys.executable, "-m", "odradek", "demo", "--no-spark"]
    environment = clean_environment() | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, preexec_fn=_with_interrupts, **pipes) as demo:  # noqa: PLW1509
        assert demo.stdout is not None
        assert any("form the group" in line for line in demo.stdout)
        started = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, "Traceback" in errors) == (code, False)
    assert list(tmp_path.iterdir()) == []
    assert len(started) == 4
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def _with_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_spark_makes_a_table_with_the_same_counts():
    if (reason := missing_for_spark()) is not None:
        pytest.skip(f"SPARK CANNOT RUN HERE: {reason}")
    assert "file, group, log, SQL, Spark agree" in run().stdout


@pytest.mark.parametrize("off_by", [1, -1])
def test_a_wrong_count_is_shown_and_is_the_exit_code(monkeypatch, off_by):
    console = Console(file=StringIO(), width=200)
    truth = totals_of(list(flights())[:500])
    wrong = Totals(truth.counts)
    carrier, (counted, arrived, delay) = next(iter(truth.counts.items()))
    wrong.counts[carrier] = (counted, arrived, delay + off_by)
    demo = Demo(console)
    assert demo.conclude({"file": truth, "group": truth})
    assert not demo.conclude({"file": truth, "group": wrong})
    assert "file, group DISAGREE" in console.file.getvalue()

    monkeypatch.setattr(Demo, "run", lambda self: self.conclude({"file": truth, "group": wrong}))
    assert CliRunner().invoke(cli, ["demo"]).exit_code == 1


@pytest.mark.processes
def test_a_broker_that_does_not_start_is_one_line(monkeypatch):
    monkeypatch.setattr("odradek.pipeline.demo.story.BROKER_SETTINGS", ("log.segment.bytes=many",))
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 1
    assert re.fullmatch(r"odradek: broker has ended with 1: .*log.segment.bytes.*\n", result.stderr), result.stderr


def test_all_flights_come_with_the_package():
    rows = list(flights())
    totals = totals_of(rows)
    assert totals.flights == len(rows) == 18_226
    assert totals.counts.keys() <= CARRIERS.keys()
    assert sum(row.key is None for row in rows) == 64


def test_a_state_is_read_from_the_metadata_of_its_commit():
    state = State(7, Totals({"UA": (7, 6, -5)}), "someone")
    assert State.of(7, state.metadata()) == state
    everything = State(18_226, totals_of(flights()), "consumer-1")
    assert len(everything.metadata()) < 4096  # offset.metadata.max.bytes


def test_a_batch_that_is_sent_again_is_stored_once(kafka_broker, kafka_topic, monkeypatch):
    rows = list(flights())[:100]
    with WireClient(Connection(kafka_broker.bootstrap)) as client:
        producer = Producer(client, kafka_topic, 1)
        request, answered = client.request, []

        def lose_the_first_answer(message, response, node=None, **options):
            answer = request(message, response, node, **options)
            answered.extend([message] if isinstance(message, ProduceRequest) else [])
            if [message] == answered:
                raise ConnectionLostError("as after kill -9")
            return answer

        monkeypatch.setattr(client, "request", lose_the_first_answer)
        producer.send(rows)
        producer.send(rows)
        place = TopicPartition(kafka_topic, 0)
        assert client.list_offsets([place], EARLIEST) == {place: 0}
        assert client.list_offsets([place], LATEST) == {place: 200}
    assert len(answered) == 3


@pytest.mark.processes
def test_a_process_that_ends_early_is_named(tmp_path):
    from odradek.pipeline.demo.processes import output_of

    with pytest.raises(DemoError, match=r"it has ended with 1: .*No module named odradek\.nothing"):
        output_of("it", tmp_path / "log", "odradek.nothing")
