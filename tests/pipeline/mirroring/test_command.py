"""`odradek mirror` as a process: its report, its signals, and kill -9 at any moment."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from long_form import LONG, rounds
from mirrored import Pair, extent, fill, producer, raw, records, seen

from odradek.pipeline.topic_partition import TopicPartition

START_TIMEOUT_S = 60


def command(pair: Pair, *arguments: str) -> list[str]:
    ends = ("--from", pair.source.bootstrap, "--to", pair.target.bootstrap)
    return [sys.executable, "-m", "odradek", "mirror", *ends, *arguments]


def run(pair: Pair, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(pair, *arguments), capture_output=True, text=True, timeout=600, check=False)


def test_the_report_is_a_table_or_json(pair: Pair) -> None:
    pair.source.create_topic("t", 2)
    fill(pair.origin, "t", 20, partitions=2)
    shown = run(pair)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0].split() == ["TOPIC", "PARTITION", "FROM", "TO", "READ", "WRITTEN", "SKIPPED"]
    assert shown.stdout.splitlines()[1].split() == ["t", "0", "0", "10", "10", "10", "-"]
    assert shown.stderr == "topic 't' is created with 2 partition(s)\n"
    document = json.loads(run(pair, "--json").stdout)
    assert (document["job"], document["complete"], document["written"], document["lag"]) == ("mirror", True, 0, 0)


def test_what_cannot_be_done_is_one_line_and_exit_code_1(pair: Pair) -> None:
    for broker, connection in ((pair.source, pair.origin), (pair.target, pair.copy)):
        broker.create_topic("t")
        fill(connection, "t", 3 if broker is pair.source else 5)
    refused = run(pair)
    assert refused.returncode == 1
    assert refused.stderr.startswith("odradek: t-0 at the target holds records that are not the source's")
    assert run(pair, "--to", "nowhere:port").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_continuous_mirror_with_its_report(pair: Pair, number: signal.Signals) -> None:
    pair.source.create_topic("t")
    fill(pair.origin, "t", 20)
    with subprocess.Popen(command(pair, "--continuous", "--json"), stdout=subprocess.PIPE, text=True) as process:
        _until(process, lambda: _end(pair) == 20)
        process.send_signal(number)
        document = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0
    assert (document["written"], document["complete"]) == (20, True)


def _end(pair: Pair, topic: str = "t") -> int:
    from odradek.pipeline.errors import PipelineError

    try:
        return extent(pair.copy, TopicPartition(topic, 0))[1]
    except PipelineError:
        return -1


def _until(process: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not holds():
        assert process.poll() is None, "the mirror has ended"
        assert time.monotonic() < deadline, "it does not come to hold"
        time.sleep(0.02)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("renumbered", [False, True], ids=["verbatim", "renumbered"])
def test_a_mirror_that_is_killed_again_and_again_loses_and_doubles_nothing(
    pair: Pair, tmp_path: Path, renumbered: bool
) -> None:
    seed = int(os.environ.get("ODRADEK_SEED", random.SystemRandom().randrange(2**32)))
    print(f"ODRADEK_SEED={seed}")
    chance, kills = random.Random(seed), rounds(2, 12)
    pair.source.create_topic("t", 2)
    options = ["--append"] if renumbered else []
    if renumbered:
        pair.target.create_topic("t", 2)
        other = producer(pair.copy)
        other.produce("t", b"of another", partition=0)
        other.flush()
    produced = 0
    for kill in range(kills):
        more = 20_000 if LONG else 10_000
        fill(pair.origin, "t", more, partitions=2, first=produced, compression_type=chance.choice(["none", "lz4"]))
        produced += more
        with (tmp_path / f"{kill}.log").open("w") as log:
            process = subprocess.Popen(command(pair, "--continuous", *options), stdout=log, stderr=log)
            before = _end(pair)
            deadline = time.monotonic() + START_TIMEOUT_S
            while _end(pair) == before and chance.random() < 0.95 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
            process.wait()
    last = run(pair, "--json", *options)
    assert last.returncode == 0, last.stderr
    if renumbered:
        theirs = records(pair.copy, "t", 2)
        assert theirs[0].pop(0).value == b"of another"
        assert theirs == records(pair.origin, "t", 2)
    else:
        for index in range(2):
            partition = TopicPartition("t", index)
            assert raw(pair.copy, partition) == raw(pair.origin, partition)
        assert seen(pair.copy, "t", 2) == seen(pair.origin, "t", 2)
