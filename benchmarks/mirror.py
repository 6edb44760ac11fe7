"""A topic copied to a second broker: `odradek mirror` between two Odradeks, MirrorMaker 2 between two Kafkas.

The rate is measured from the first poll that finds records in the target to the one that finds all, so that it does not
include the start of the JVM and of Connect.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.brokers import RunningBroker, Side
from benchmarks.cases import KAFKA, Case, Effort, Figure, Mode, NotMeasuredError
from benchmarks.loads import run_load
from compat_tests.real_kafka import UnavailableError, jars_folder, java_command
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient

RECORD_BYTES = 1024
PARTITIONS = 4
FILL_S = 1.5
WITHIN_S = 240
LOOK_S = 0.02
_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_SETTINGS = {
    "clusters": "source, target",
    "source->target.enabled": "true",
    "target->source.enabled": "false",
    "tasks.max": str(PARTITIONS),
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "source.consumer.auto.offset.reset": "earliest",
}


def mirror(side: Side, mode: Mode, effort: Effort) -> Mapping[str, float]:
    """MB a second while copying. Raises NotMeasuredError."""
    source, target = side.broker, side.fresh()
    try:
        with source.topic(PARTITIONS, mode) as topic:
            filled = run_load(
                "librdkafka",
                "produce",
                bootstrap=source.bootstrap,
                topic=topic,
                partitions=PARTITIONS,
                size_bytes=RECORD_BYTES,
                duration_s=FILL_S * effort.scale,
            )
            command = _mirror_maker if side.name == KAFKA else _odradek
            copy = f"source.{topic}" if side.name == KAFKA else topic
            with _running(command(source, target, topic), target.home / "mirror.log") as process:
                seconds, records = _watch(process, target, copy, round(filled["records"]))
            return {"rate": records * RECORD_BYTES / 1e6 / seconds}
    finally:
        target.stop()


def _odradek(source: RunningBroker, target: RunningBroker, topic: str) -> list[str]:
    ends = ("--from", source.bootstrap, "--to", target.bootstrap, "--topics", topic)
    return [sys.executable, "-m", "odradek", "mirror", *ends, "--continuous"]


def _mirror_maker(source: RunningBroker, target: RunningBroker, topic: str) -> list[str]:
    try:
        java = java_command()
    except UnavailableError as error:
        raise NotMeasuredError(str(error)) from error
    jars = jars_folder()
    ours = sorted(jars.glob("connect-mirror-*.jar"))
    if not ours or not (jars / "kafka").is_dir():
        raise NotMeasuredError("no jars of MirrorMaker 2: run scripts/fetch_jars.sh kafka connect")
    settings = {
        **_SETTINGS,
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.topics": topic,
    }
    config = target.home / "mm2.properties"
    config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    path = ":".join([f"{jars}/kafka/*", *map(str, ours)])
    return [java, "-Xmx1g", "-Xms256m", "-cp", path, _MAIN, str(config)]


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _watch(process: subprocess.Popen[bytes], target: RunningBroker, topic: str, count: int) -> tuple[float, int]:
    """Seconds and records between the first poll that finds records and the one that finds all of them."""
    deadline = time.perf_counter() + WITHIN_S
    began_s, began = 0.0, 0
    with WireClient(Connection(target.bootstrap)) as client:
        while True:
            now_s, copied = time.perf_counter(), _records_in(client, topic)
            if copied and not began_s:
                began_s, began = now_s, copied
            if copied >= count:
                break
            if process.poll() is not None:
                raise NotMeasuredError(
                    f"the mirror ended after {copied} of {count} records (exit {process.returncode})"
                )
            if now_s > deadline:
                raise NotMeasuredError(f"the mirror copied {copied} of {count} records in {WITHIN_S} s")
            time.sleep(LOOK_S)
    if began >= count:
        raise NotMeasuredError("everything was copied between two polls")
    return time.perf_counter() - began_s, count - began


def _records_in(client: WireClient, topic: str) -> int:
    try:
        return sum(client.list_offsets([TopicPartition(topic, index) for index in range(PARTITIONS)], LATEST).values())
    except PipelineError:
        return 0  # the topic does not exist yet


CASES = (
    Case(
        "mirror",
        "copy 1 KB to a second broker, mirror / MirrorMaker 2",
        (Figure("rate", "MB/s"),),
        mirror,
        modes=(Mode.PAGE_CACHE,),
    ),
)
