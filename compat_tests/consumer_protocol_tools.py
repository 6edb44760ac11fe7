"""Groups of the consumer protocol (KIP-848) with Kafka's own consumer, and the tools' output about them."""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack
from typing import Any

from compat_tests.clients import Record, kafka_python
from compat_tests.comparison import CaseBook, Side
from compat_tests.consumer_protocol import ROW, await_members, described, kind_of
from compat_tests.java_tools import run_tool, running_tool
from compat_tests.processes import wait_for
from compat_tests.raw_groups import await_group

HIDDEN = {"CONSUMER-ID", "HOST", "CLIENT-ID", "COORDINATOR", "(ID)", "CURRENT-ASSIGNMENT", "TARGET-ASSIGNMENT"}


class Readers:
    """Console consumers of one group, and their output."""

    def __init__(self, side: Side, group: str, stack: ExitStack) -> None:
        self._side, self._group, self._stack = side, group, stack
        self.lines: list[str] = []

    def start(self, *what: str, protocol: str = "consumer") -> subprocess.Popen[str]:
        """Starts one more member, of either protocol."""
        by = ("--group", self._group, "--from-beginning", "--command-property", f"group.protocol={protocol}")
        running = running_tool("kafka-console-consumer", self._side.bootstrap, *what, *by)
        process = self._stack.enter_context(running)
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.lines.extend(line.strip() for line in iter(process.stdout.readline, ""))


def take_over(side: Side) -> Any:
    """Three consumers on two partitions; two are killed, the third gets everything. Tools describe the group."""
    topic, group = side.topic(partitions=2), side.name("group")
    with ExitStack() as stack:
        readers = Readers(side, group, stack)
        members = [readers.start("--topic", topic) for _ in range(3)]
        before = await_members(side, group, [0, 1, 1])
        tables = {view: _table(side, group, *view.split()) for view in ("--state", "--members", "--members --verbose")}
        kinds = [line.split() for line in _lines(side, "--list", "--type", "consumer") if line.startswith(group)]
        refused = run_tool("kafka-consumer-groups", side.bootstrap, "--delete", "--group", group)
        for victim in members[:2]:
            victim.kill()
        after = await_members(side, group, [2])
        kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
        wait_for(lambda: len(readers.lines) >= 10, "ten records after the take-over")
        members[2].terminate()
        members[2].wait(timeout=30)
        left = described(side, group)
    offsets = _table(side, group)
    return {
        "before": before,
        "tables": tables,
        "kinds": kinds,
        "deleting": "GroupNotEmptyException" in refused.stdout + refused.stderr,
        "after": after,
        "values": sorted(readers.lines),
        "left": left,
        "offsets": offsets,
    }


def change_of_protocol(side: Side) -> Any:
    """A classic group of console consumers gets a new member, loses the old one, and changes back."""
    topic, group = side.topic(partitions=2), side.name("group")
    with ExitStack() as stack:
        readers = Readers(side, group, stack)
        old = readers.start("--topic", topic, protocol="classic")
        classic = await_group(side.bootstrap, group, [2])
        new = readers.start("--topic", topic)
        both = await_members(side, group, [1, 1])
        kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
        wait_for(lambda: len(readers.lines) >= 10, "ten records with both")
        old.terminate()
        alone = await_members(side, group, [2])
        kind = kind_of(side, group)
        readers.start("--topic", topic, protocol="classic")
        await_members(side, group, [1, 1])
        new.terminate()
        again = await_group(side.bootstrap, group, [2])
        kafka_python.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10, 20)])
        wait_for(lambda: set(map(str, range(20))) <= set(readers.lines), "twenty records")
        last = kind_of(side, group)
    return {"classic": classic, "both": both, "alone": [alone, kind], "again": [again, last]}


def by_include(side: Side) -> Any:
    """A consumer that matches topics itself, as Kafka's console consumer does with --include."""
    group = side.name("group")
    for what in ("in-1", "in-2", "out"):
        kafka_python.produce(side.bootstrap, side.topic(what), [Record(what.encode())])
    with ExitStack() as stack:
        readers = Readers(side, group, stack)
        readers.start("--include", side.name("in-.*"))
        wait_for(lambda: len(readers.lines) >= 2, "two records")
        group_now = await_members(side, group, [2])
    return {"values": sorted(readers.lines), "group": group_now}


def _lines(side: Side, *arguments: str) -> list[str]:
    result = run_tool("kafka-consumer-groups", side.bootstrap, *arguments)
    assert result.code == 0, f"{arguments}: exit {result.code}\n{result.stdout}\n{result.stderr[-2000:]}"
    return result.lines


def _table(side: Side, group: str, *view: str) -> list[list[str]]:
    """A description without the columns that differ between runs, with sorted rows."""
    described = _lines(side, "--describe", "--group", group, *view)
    rows = [line.split() for line in described if not line.startswith(("Consumer group", "Warning"))]
    keep = [i for i, name in enumerate(rows[0]) if name not in HIDDEN]
    return sorted([row[i] for i in keep if i < len(row)] for row in rows)


def add_consumer_protocol_tools(book: CaseBook) -> None:
    """Adds the cases in the row of the consumer protocol."""
    book.add(ROW, take_over, name=ROW)
    book.add(ROW, change_of_protocol, name=f"{ROW}-change")
    book.add(ROW, by_include, name=f"{ROW}-include")
