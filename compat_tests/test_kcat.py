"""Debian's kcat, which is linked to an old librdkafka (2.0.2), against Odradek and Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients import EPOCH_MS, Record, kafka_python
from compat_tests.comparison import Case, CaseBook, Comparison, Side
from compat_tests.frames import RawConnection, batch_headers, fetch
from compat_tests.processes import Guard, wait_for
from compat_tests.raw_groups import await_group

BOOK = CaseBook("kcat", needs="kcat")
_UNIT, _RECORD = "\x1f", "%p|%o|%k|%K|%s|%S|%h\n"


def kcat_path() -> str:
    """The path of kcat; a missing one is a failure and not a skip."""
    found = shutil.which("kcat")
    assert found, "kcat is missing: run scripts/ensure_kcat.sh, or say ODRADEK_NO_KCAT=1"
    return found


def kcat(side: Side, *arguments: str, stdin: bytes = b"", ok: bool = True) -> Any:
    """Runs kcat to its end; returns standard output, or with ``ok=False`` exit code and messages."""
    command = [kcat_path(), "-b", side.bootstrap, *arguments]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    if not ok:
        return {"code": result.returncode, "said": _anonymous(result.stderr.decode(errors="replace"))}
    assert result.returncode == 0, f"{command}: {result.stderr.decode(errors='replace')}"
    return result.stdout.decode("latin-1")


def _anonymous(text: str) -> list[str]:
    """Messages without addresses, thread names and times."""
    lines = [re.sub(r"(127\.0\.0\.1|localhost):\d+(/\w+)?", "HOST", line) for line in text.splitlines()]
    lines = [re.sub(r"^%\d\|[\d.]+\|(\w+)\|[^|]*\|", r"\1", line) for line in lines]
    return sorted(re.sub(r"rdkafka#\S+|after \d+ms.*", "", line).strip() for line in lines if "Terminating" not in line)


def consume(side: Side, topic: str, *arguments: str) -> list[str]:
    """Every record from the beginning to the end, in a format that shows nulls as length -1."""
    position = arguments or ("-o", "beginning")
    lines = kcat(side, "-C", "-t", topic, "-e", "-q", "-f", _RECORD, *position).splitlines()
    return sorted(lines, key=lambda line: int(line.split("|")[0]))


@BOOK.case("codecs")
def codecs(side: Side) -> Any:
    found = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = side.topic(codec)
        kcat(side, "-P", "-t", topic, "-z", codec, stdin=b"".join(b"%d " % n * 50 + b"\n" for n in range(20)))
        with RawConnection(side.bootstrap) as connection:
            stored = {b["codec"] for b in batch_headers(fetch(connection, topic)["records"])}
        found[codec] = {"stored": stored, "records": consume(side, topic)}
    return found


@BOOK.case("headers")
def headers(side: Side) -> Any:
    topic = side.topic()
    for pairs in (["a=1"], ["a=1", "b=", "a=2"], ["only-a-name"], ["uml=größe"]):
        kcat(side, "-P", "-t", topic, *(part for pair in pairs for part in ("-H", pair)), stdin=b"value\n")
    return consume(side, topic)


@BOOK.case("nulls")
def nulls(side: Side) -> Any:
    topic = side.topic()
    kcat(side, "-P", "-t", topic, "-Z", "-K", _UNIT, stdin=b"k\x1fv\n\x1fv\nk\x1f\n\x1f\n")
    kcat(side, "-P", "-t", topic, "-K", _UNIT, stdin=b"k\x1f\n\x1fv\n")
    return consume(side, topic)


@BOOK.case("one-megabyte")
def one_megabyte(side: Side) -> Any:
    topic = side.topic()
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"m" * 1_000_000)
        kcat(side, "-P", "-t", topic, "-X", "message.max.bytes=1100000", "-z", "none", file.name)
    return kcat(side, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-f", "%o %S\n")


@BOOK.case("many-partitions")
def many_partitions(side: Side) -> Any:
    topic = side.topic(partitions=50)
    kcat(side, "-P", "-t", topic, "-K", ":", stdin=b"".join(b"key%d:%d\n" % (n, n) for n in range(300)))
    listing = json.loads(kcat(side, "-L", "-J", "-t", topic))["topics"]
    if "," in side.bootstrap:  # the assignment of partitions to brokers is the controller's choice
        for partition in listing[0]["partitions"]:
            del partition["leader"]
            partition |= {key: sorted(each["id"] for each in partition[key]) for key in ("replicas", "isrs")}
    return {"listing": listing, "records": consume(side, topic)}


@BOOK.case("key-hashing")
def key_hashing(side: Side) -> Any:
    topic = side.topic(partitions=7)
    records = b"".join(b"N%d:x\n" % n for n in range(100))
    kcat(side, "-P", "-t", topic, "-K", ":", stdin=records)
    murmur = side.topic("murmur", 7)
    kcat(side, "-P", "-t", murmur, "-K", ":", "-X", "topic.partitioner=murmur2_random", stdin=records)
    return {"consistent": consume(side, topic), "murmur2": consume(side, murmur)}


@BOOK.case("seek-and-replay")
def seek_and_replay(side: Side) -> Any:
    topic = side.topic()
    kcat(side, "-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(30)))
    positions = ("beginning", "10", "-5", "29", "end")
    found = {position: consume(side, topic, "-o", position, "-p", "0") for position in positions}
    return {**found, "three": consume(side, topic, "-o", "7", "-p", "0", "-c", "3")}


@BOOK.case("broadcast")
def broadcast(side: Side) -> Any:
    topic = side.topic(partitions=2)
    for partition in ("0", "1"):
        kcat(side, "-P", "-t", topic, "-p", partition, stdin=b"a\nb\nc\n")
    return [consume(side, topic) for _ in range(2)]


def balanced(side: Side, group: str, topic: str, count: int) -> list[str]:
    """Joins a group, reads ``count`` records, and leaves, which commits the position."""
    reset = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500")
    text = kcat(side, "-G", group, *reset, "-c", str(count), "-q", "-f", _RECORD, topic)
    return sorted(text.splitlines())


@BOOK.case("two-groups")
def two_groups(side: Side) -> Any:
    topic = side.topic()
    kcat(side, "-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(10)))
    found = {group: balanced(side, side.name(group), topic, 10) for group in ("first", "second")}
    kcat(side, "-P", "-t", topic, stdin=b"late\n")
    return {**found, "resumed": balanced(side, side.name("first"), topic, 1)}


class _Member:
    """A kcat in a group, in the background."""

    def __init__(self, side: Side, group: str, topic: str) -> None:
        times = [
            "-X",
            "session.timeout.ms=3000",
            "-X",
            "heartbeat.interval.ms=300",
            "-X",
            "auto.commit.interval.ms=200",
        ]
        command = [kcat_path(), "-b", side.bootstrap, "-G", group, *times, "-X", "auto.offset.reset=earliest"]
        self.process = subprocess.Popen(
            [*command, "-u", "-q", "-f", "%s\n", topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._guard = Guard(f"kill -9 {self.process.pid}")
        self.values: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.values.extend(line.strip() for line in iter(self.process.stdout.readline, ""))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=20)
        self._reader.join(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._guard.release()


@contextlib.contextmanager
def _members(side: Side, group: str, topic: str, count: int) -> Iterator[list[_Member]]:
    members = [_Member(side, group, topic) for _ in range(count)]
    try:
        yield members
    finally:
        for member in members:
            member.kill()


@BOOK.case("take-over")
def take_over(side: Side) -> Any:
    """Three members on two partitions; after two of them are killed, the third has both."""
    topic, group = side.topic(partitions=2), side.name("group")
    with _members(side, group, topic, 3) as members:
        before = await_group(side.bootstrap, group, [0, 1, 1])
        _to_both(side, topic, b"before")
        _wait_for_values(members, {"before"}, 2)
        for victim in members[:2]:
            victim.process.kill()
        after = await_group(side.bootstrap, group, [2])
        _to_both(side, topic, b"after")
        wait_for(lambda: members[2].values.count("after") == 2, "both records after the take-over")
        return {"before": before, "after": after, "taken after": members[2].values.count("after")}


def _to_both(side: Side, topic: str, value: bytes) -> None:
    for partition in ("0", "1"):
        kcat(side, "-P", "-t", topic, "-p", partition, stdin=value + b"\n")


def _wait_for_values(members: list[_Member], values: set[str], count: int) -> None:
    wait_for(lambda: sum(v in values for m in members for v in m.values) >= count, f"{count} of {values}")


@BOOK.case("crash-resume")
def crash_resume(side: Side) -> Any:
    topic, group = side.topic(), side.name("group")
    kcat(side, "-P", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(20)))
    first = balanced(side, group, topic, 8)
    side.crash_and_restart()
    return {"first": first, "resumed": balanced(side, group, topic, 12), "all": consume(side, topic)}


@BOOK.case("idempotent-retry")
def idempotent_retry(side: Side) -> Any:
    """kcat stays connected and keeps sending while the broker is killed and restarted."""
    topic = side.topic()
    command = [
        kcat_path(),
        "-b",
        side.bootstrap,
        "-P",
        "-t",
        topic,
        "-X",
        "enable.idempotence=true",
        "-X",
        "linger.ms=5",
    ]
    producer = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    guard = Guard(f"kill -9 {producer.pid}")
    assert producer.stdin is not None
    try:
        producer.stdin.write(b"".join(b"%d\n" % n for n in range(100)) + b" " * 200_000)  # its reader works in blocks
        producer.stdin.flush()
        wait_for(lambda: _end(side, topic) >= 50, "the first records")
        side.broker.crash()
        producer.stdin.write(b"\n" + b"".join(b"%d\n" % n for n in range(100, 200)))
        producer.stdin.close()
        side.broker.restart()
        code = producer.wait(timeout=60)
    finally:
        producer.kill()
        producer.wait()
        guard.release()
    return {"code": code, "values": [line.strip()[:80] for line in consume(side, topic)], "end": _end(side, topic)}


def _end(side: Side, topic: str) -> int:
    with RawConnection(side.bootstrap) as connection:
        return fetch(connection, topic)["high_watermark"]


@BOOK.case("offsets-by-time")
def offsets_by_time(side: Side) -> Any:
    topic = side.topic()
    for n in range(6):
        kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, timestamp_ms=EPOCH_MS + n * 1000)])
    asked = [-1, -2, *(EPOCH_MS + t for t in (0, 1, 2500, 5000, 5001))]
    queries = [kcat(side, "-Q", "-t", f"{topic}:0:{time}") for time in asked]
    window = consume(side, topic, "-o", f"s@{EPOCH_MS + 1500}", "-o", f"e@{EPOCH_MS + 4000}")
    return {"queries": queries, "window": window}


REFUSALS = (
    "% Delivery failed for message: Broker: Invalid topic",
    "% ERROR: Failed to produce message (1 bytes): Local: Unknown topic",
)
"""kcat's message about an invalid topic, before and after it has the metadata's answer."""


def _refused(observed: dict[str, Any]) -> dict[str, Any]:
    """Replaces either message by the first: the choice depends on kcat's timing, not on the broker."""
    [said] = observed["said"]
    assert said in REFUSALS
    return observed | {"said": [REFUSALS[0]]}


@BOOK.case("unknown-topic")
def unknown_topic(side: Side) -> Any:
    topic, missing = side.topic(), side.name("missing")
    no_creation = ("-X", "allow.auto.create.topics=false")
    return {
        "consume a missing topic": kcat(side, "-C", "-e", "-t", missing, *no_creation, ok=False),
        "consume a missing partition": kcat(side, "-C", "-e", "-t", topic, "-p", "99", ok=False),
        "produce to a missing partition": kcat(side, "-P", "-t", topic, "-p", "99", stdin=b"x\n", ok=False),
        "produce to a bad name": _refused(kcat(side, "-P", "-t", "no/such", stdin=b"x\n", ok=False)),
        "list a bad name": json.loads(kcat(side, "-L", "-J", "-t", "no/such"))["topics"],
        "produce creates": kcat(side, "-P", "-t", side.name("made"), stdin=b"x\n"),
        "made": consume(side, side.name("made")),
    }


@BOOK.case("oversized-record")
def oversized_record(side: Side) -> Any:
    topic = side.topic(max_message_bytes="20000")
    return {
        "large": kcat(side, "-P", "-t", topic, stdin=b"x" * 30_000 + b"\n", ok=False),
        "small": kcat(side, "-P", "-t", topic, stdin=b"x" * 10_000 + b"\n", ok=False),
        "kept": kcat(side, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-f", "%o %S\n"),
    }


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
