"""Kafka's own command-line tools against Odradek and Apache Kafka."""

from __future__ import annotations

import re
import subprocess
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from compat_tests.clients import EPOCH_MS, Record, kafka_python
from compat_tests.comparison import Case, CaseBook, Comparison, Side
from compat_tests.consumer_protocol_tools import add_consumer_protocol_tools
from compat_tests.frames import RawConnection, batch_headers, fetch
from compat_tests.java_admin import add_admin_cases
from compat_tests.java_tools import ToolResult, run_tool, running_tool
from compat_tests.processes import wait_for
from compat_tests.raw_groups import await_group

BOOK = CaseBook("java-tools", needs="Java")
_SHOW = {"print.key": "true", "print.partition": "true", "print.offset": "true", "null.literal": "NULL"}


def tool(side: Side, name: str, *arguments: str, stdin: str | None = None) -> ToolResult:
    """Runs a tool that must succeed."""
    result = run_tool(name, side.bootstrap, *arguments, stdin=stdin)
    assert result.code == 0, f"{name} {arguments}: exit {result.code}\n{result.stdout}\n{result.stderr[-2000:]}"
    return result


def produce(side: Side, topic: str, text: str, *arguments: str, **reader: str) -> ToolResult:
    properties = [part for k, v in reader.items() for part in ("--reader-property", f"{k.replace('_', '.')}={v}")]
    return tool(side, "kafka-console-producer", "--topic", topic, *arguments, *properties, stdin=text)


def consume(side: Side, topic: str, count: int, *arguments: str, **formatter: str) -> list[str]:
    """``count`` records, sorted by partition and offset."""
    shown = {**_SHOW, **{key.replace("_", "."): value for key, value in formatter.items()}}
    properties = [part for k, v in shown.items() for part in ("--formatter-property", f"{k}={v}")]
    position = arguments or ("--from-beginning",)
    limits = ("--max-messages", str(count), "--timeout-ms", "30000")
    result = tool(side, "kafka-console-consumer", "--topic", topic, *position, *limits, *properties)
    return sorted(result.lines, key=_place)


def _place(line: str) -> tuple[int, int]:
    found = {name: int(number) for name, number in re.findall(r"\b(Partition|Offset):(\d+)", line)}
    return found.get("Partition", 0), found.get("Offset", 0)


def _errors(result: ToolResult) -> list[str]:
    """The exceptions named in a tool's output."""
    return sorted(set(re.findall(r"\b\w+(?:Exception|Error)\b", result.stdout + result.stderr)))


@BOOK.case("codecs")
def codecs(side: Side) -> Any:
    topic = side.topic()
    text = "".join(f"{'record ' * 30}{n}\n" for n in range(20))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(side, topic, text, "--compression-codec", codec)
    with RawConnection(side.bootstrap) as connection:
        batches = batch_headers(fetch(connection, topic)["records"])
    return {"stored": sorted({b["codec"] for b in batches}), "records": consume(side, topic, 100)}


@BOOK.case("headers")
def headers(side: Side) -> Any:
    topic = side.topic()
    text = "a:1,b:2,a:3\tone\nno:\ttwo\nnil:NIL\tthree\n"
    produce(side, topic, text, parse_headers="true", null_marker="NIL")
    return consume(side, topic, 3, print_headers="true")


@BOOK.case("nulls")
def nulls(side: Side) -> Any:
    topic = side.topic()
    produce(side, topic, "k\tv\nNIL\tv\nk\tNIL\nNIL\tNIL\nk\t\n", parse_key="true", null_marker="NIL")
    return consume(side, topic, 5)


@BOOK.case("one-megabyte")
def one_megabyte(side: Side) -> Any:
    topic = side.topic()
    produce(side, topic, "m" * 1_000_000 + "\n")
    return [len(line) for line in consume(side, topic, 1)]


@BOOK.case("many-partitions")
def many_partitions(side: Side) -> Any:
    topic = side.name()
    created = tool(side, "kafka-topics", "--create", "--topic", topic, "--partitions", "50").lines
    produce(side, topic, "".join(f"key{n}\t{n}\n" for n in range(300)), parse_key="true")
    offsets = tool(side, "kafka-get-offsets", "--topic", topic).lines
    return {"created": created, "offsets": offsets, "records": consume(side, topic, 300)}


@BOOK.case("key-hashing")
def key_hashing(side: Side) -> Any:
    topic = side.topic(partitions=7)
    produce(side, topic, "".join(f"N{n}\tx\n" for n in range(100)), parse_key="true")
    return consume(side, topic, 100)


@BOOK.case("seek-and-replay")
def seek_and_replay(side: Side) -> Any:
    topic = side.topic()
    produce(side, topic, "".join(f"{n}\n" for n in range(30)))
    return {
        position: consume(side, topic, count, "--partition", "0", "--offset", position)
        for position, count in (("earliest", 30), ("25", 5))
    }


@BOOK.case("broadcast")
def broadcast(side: Side) -> Any:
    topic = side.topic(partitions=2)
    kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
    return [consume(side, topic, 10) for _ in range(2)]


def _table(result: ToolResult) -> list[list[str]]:
    """A tool's table without the columns that differ between runs."""
    rows = [line.split() for line in result.lines if not line.startswith(("Consumer group", "Warning"))]
    hidden = {"CONSUMER-ID", "HOST", "CLIENT-ID", "COORDINATOR", "(ID)"}
    keep = [i for i, name in enumerate(rows[0]) if name not in hidden] if rows else []
    return [[row[i] for i in keep if i < len(row)] for row in rows]


@BOOK.case("two-groups")
def two_groups(side: Side) -> Any:
    topic = side.topic()
    groups = [side.name("first"), side.name("second")]
    kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n) for n in range(10)])
    taken = {
        groups[0]: consume(side, topic, 10, "--from-beginning", "--group", groups[0]),
        groups[1]: consume(side, topic, 4, "--from-beginning", "--group", groups[1]),
    }
    listed = [g for g in tool(side, "kafka-consumer-groups", "--list").lines if g in groups]
    described = [_table(tool(side, "kafka-consumer-groups", "--describe", "--group", g)) for g in groups]
    return {"taken": taken, "listed": sorted(listed), "described": described}


@BOOK.case("two-groups", name="group-administration")
def group_administration(side: Side) -> Any:
    topic, group = side.topic(partitions=2), side.name("group")
    kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
    kafka_python.consume_group(side.bootstrap, group, topic, 10)
    of_group = ("--group", group)
    by = ("--reset-offsets", *of_group, "--topic", topic, "--shift-by", "-2", "--execute")
    return {
        "reset": _table(tool(side, "kafka-consumer-groups", *by)),
        "state": _table(tool(side, "kafka-consumer-groups", "--describe", *of_group, "--state")),
        "delete offsets": tool(
            side, "kafka-consumer-groups", "--delete-offsets", *of_group, "--topic", f"{topic}:0"
        ).lines,
        "described": _table(tool(side, "kafka-consumer-groups", "--describe", *of_group)),
        "delete": tool(side, "kafka-consumer-groups", "--delete", *of_group).lines,
        "gone": _errors(run_tool("kafka-consumer-groups", side.bootstrap, "--describe", *of_group)),
    }


def _member(side: Side, topic: str, group: str) -> Any:
    times = ("--command-property", "session.timeout.ms=3000", "--command-property", "heartbeat.interval.ms=300")
    what = ("--topic", topic, "--group", group, "--from-beginning")
    return running_tool("kafka-console-consumer", side.bootstrap, *what, *times)


@BOOK.case("take-over")
def take_over(side: Side) -> Any:
    """Three console consumers on two partitions; two are killed, the third takes everything."""
    topic, group = side.topic(partitions=2), side.name("group")
    with ExitStack() as stack:
        members = [stack.enter_context(_member(side, topic, group)) for _ in range(3)]
        before = await_group(side.bootstrap, group, [0, 1, 1])
        for victim in members[:2]:
            victim.kill()
        after = await_group(side.bootstrap, group, [2])
        lines: list[str] = []
        reader = threading.Thread(target=_read, args=(members[2], lines), daemon=True)
        reader.start()
        kafka_python.produce(side.bootstrap, topic, [Record(b"after %d" % n, partition=n % 2) for n in range(10)])
        wait_for(lambda: len(lines) >= 10, "ten records after the take-over")
        members[2].kill()
        reader.join(timeout=20)
    return {"before": before, "after": after, "values": sorted(lines)}


def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
    assert process.stdout is not None
    lines.extend(line.strip() for line in iter(process.stdout.readline, ""))


add_consumer_protocol_tools(BOOK)


@BOOK.case("crash-resume")
def crash_resume(side: Side) -> Any:
    topic, group = side.topic(), side.name("group")
    produce(side, topic, "".join(f"{n}\n" for n in range(20)))
    first = consume(side, topic, 8, "--from-beginning", "--group", group)
    side.crash_and_restart()
    return {"first": first, "resumed": consume(side, topic, 12, "--from-beginning", "--group", group)}


@BOOK.case("offsets-by-time")
def offsets_by_time(side: Side) -> Any:
    topic = side.topic(partitions=2)
    for n in range(6):
        record = Record(b"%d" % n, timestamp_ms=EPOCH_MS + (n // 2) * 1000, partition=n % 2)
        kafka_python.produce(side.bootstrap, topic, [record])
    times = ("earliest", "latest", "max-timestamp", str(EPOCH_MS + 500), str(EPOCH_MS + 9000))
    return {t: tool(side, "kafka-get-offsets", "--topic", topic, "--time", t).lines for t in times}


@BOOK.case("unknown-topic")
def unknown_topic(side: Side) -> Any:
    topic, missing = side.topic(), side.name("missing")
    described = run_tool("kafka-topics", side.bootstrap, "--describe", "--topic", missing)
    created = run_tool("kafka-topics", side.bootstrap, "--create", "--topic", topic)
    deleted = run_tool("kafka-topics", side.bootstrap, "--delete", "--topic", missing)
    offsets = run_tool("kafka-get-offsets", side.bootstrap, "--topic", missing)
    produce(side, side.name("made"), "x\n")
    return {
        "describe": [described.code, _errors(described)],
        "create twice": [created.code, _errors(created)],
        "delete": [deleted.code, _errors(deleted)],
        "offsets": [offsets.code, _errors(offsets)],
        "made by producing": consume(side, side.name("made"), 1),
    }


@BOOK.case("oversized-record")
def oversized_record(side: Side) -> Any:
    topic = side.topic(max_message_bytes="20000")
    result = run_tool("kafka-console-producer", side.bootstrap, "--topic", topic, stdin="x" * 30_000 + "\n")
    produce(side, topic, "small\n")
    return {"code": result.code, "errors": _errors(result), "kept": consume(side, topic, 1)}


def _topic_description(side: Side, topic: str) -> list[str]:
    text = tool(side, "kafka-topics", "--describe", "--topic", topic).lines
    return [re.sub(r"TopicId: \S+\s*", "", line).replace("\t", " ") for line in text]


@BOOK.case("configs")
def topic_configs(side: Side) -> Any:
    topic = side.topic(partitions=2, retention_ms="600000")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    change = ("--add-config", "retention.ms=1000000,cleanup.policy=[compact,delete],min.insync.replicas=1")
    return {
        "all": _configs(tool(side, "kafka-configs", "--describe", "--all", *entity)),
        "alter": tool(side, "kafka-configs", "--alter", *entity, *change).lines,
        "altered": _configs(tool(side, "kafka-configs", "--describe", *entity)),
        "delete": tool(side, "kafka-configs", "--alter", *entity, "--delete-config", "cleanup.policy").lines,
        "bad": _errors(
            run_tool("kafka-configs", side.bootstrap, "--alter", *entity, "--add-config", "retention.ms=soon")
        ),
        "partitions": tool(side, "kafka-topics", "--alter", "--topic", topic, "--partitions", "4").lines,
        "described": _topic_description(side, topic),
    }


def _configs(result: ToolResult) -> dict[str, str]:
    """``name=value sensitive=... synonyms={...}`` lines by name."""
    pairs = [line.strip().split("=", 1) for line in result.lines if line.startswith("  ")]
    return dict(sorted((name, rest) for name, rest in pairs))


@BOOK.case("tools")
def tools(side: Side) -> Any:
    """Performance and inspection tools complete and count correctly."""
    topic = side.topic(partitions=3)
    sizes = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    sent = tool(side, "kafka-producer-perf-test", "--topic", topic, *sizes).lines[-1]
    fetched = tool(side, "kafka-consumer-perf-test", "--topic", topic, "--num-records", "5000").lines[-1]
    versions = tool(side, "kafka-broker-api-versions").stdout
    topics = tool(side, "kafka-topics", "--list", "--exclude-internal").lines
    deleted = tool(side, "kafka-topics", "--delete", "--topic", topic)
    return {
        "producer": sent.split(",")[0],
        "consumer": [part.strip() for part in fetched.split(",")][4],
        "versions": sorted(set(re.findall(r"(Produce|Fetch|JoinGroup|CreateTopics)\(\d+\)", versions))),
        "listed": topic in topics,
        "deleted": deleted.code,
    }


add_admin_cases(BOOK)


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
