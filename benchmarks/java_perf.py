"""Runs Kafka's own perf tools, on a JVM with its optimising compiler, and parses their output."""

from __future__ import annotations

import re
import subprocess

from benchmarks.cases import NotMeasuredError
from compat_tests.real_kafka import UnavailableError, jars_folder, java_command

_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)")
_WARM_UP_SHARE = 0.3


def producer_perf(bootstrap: str, topic: str, records: int, size_bytes: int, timeout_s: float = 60) -> float:
    """Records a second after the warm-up, with acks=all and the client's other defaults. Raises NotMeasuredError."""
    arguments = ["--topic", topic, "--num-records", str(records), "--record-size", str(size_bytes)]
    arguments += ["--throughput", "-1", "--warmup-records", str(int(records * _WARM_UP_SHARE))]
    arguments += ["--command-property", f"bootstrap.servers={bootstrap}", "acks=all"]
    return parse_producer(_run("org.apache.kafka.tools.ProducerPerformance", arguments, timeout_s))


def consumer_perf(bootstrap: str, topic: str, records: int, group: str, timeout_s: float = 60) -> float:
    """Records a second while fetching, without the time to join the group. Raises NotMeasuredError."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), "--group", group]
    seen, rate = parse_consumer(_run("org.apache.kafka.tools.ConsumerPerformance", arguments, timeout_s))
    if seen < records:
        raise NotMeasuredError(f"kafka-consumer-perf-test saw {seen} of {records} records")
    return rate


def parse_producer(output: str) -> float:
    """Records a second of the last summary, that of the steady state after a warm-up. Raises NotMeasuredError."""
    rates = [float(found[2]) for line in output.splitlines() if (found := _PRODUCED.match(line))]
    if not rates:
        raise NotMeasuredError(f"kafka-producer-perf-test printed no summary: {output.strip()[-200:]}")
    return rates[-1]


def parse_consumer(output: str) -> tuple[int, float]:
    """The number of records, and records a second of fetching, from the columns that the header names.

    Raises NotMeasuredError.
    """
    lines = [line for line in output.splitlines() if line.count(",") >= 9]
    if len(lines) < 2:
        raise NotMeasuredError(f"kafka-consumer-perf-test printed no figures: {output.strip()[-200:]}")
    names = [name.strip() for name in lines[0].split(",")]
    row = dict(zip(names, (value.strip() for value in lines[-1].split(",")), strict=False))
    try:
        return int(row["data.consumed.in.nMsg"]), float(row["fetch.nMsg.sec"])
    except (KeyError, ValueError) as error:
        raise NotMeasuredError(f"kafka-consumer-perf-test printed {lines[-1]!r}") from error


def _run(tool: str, arguments: list[str], timeout_s: float) -> str:
    try:
        java = java_command()
    except UnavailableError as error:
        raise NotMeasuredError(str(error)) from error
    libs = jars_folder() / "kafka"
    if not libs.is_dir():
        raise NotMeasuredError("no Kafka jars: run scripts/fetch_jars.sh kafka")
    command = [java, "-Xmx512m", "-cp", f"{libs}/*", tool, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotMeasuredError(f"{tool.rpartition('.')[2]} did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise NotMeasuredError(f"{tool.rpartition('.')[2]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout
