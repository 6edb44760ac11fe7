"""Clients that are killed during their operations. Each is a process that prints its operations while it runs.

    python -m compat_tests.history.victims NAME ROLE BOOTSTRAP TOPIC PARTITIONS GROUP

It prints a line before it sends anything, and one when an operation has ended. An operation whose end was not printed
has an unknown outcome. A member prints what it has read before it commits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from compat_tests.history import librdkafka_clients
from compat_tests.history.recorder import Recorder
from compat_tests.history.workers import MemberWorker, PlainWorker, Target, TransactionWorker, Worker
from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent

ROOT = Path(__file__).parents[2]
WITNESSED = 5
"""The number of operations after which a victim is killed."""


class Victim:
    """One such process; `kill` sends SIGKILL, `operations` are those that it printed."""

    def __init__(self, name: str, role: str, target: Target, group: str) -> None:
        self.process = name
        self.is_transactional = role == "transactional"
        arguments = [name, role, target.bootstrap, target.topic, str(target.partitions), group]
        self._running = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.history.victims", *arguments],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._lines: list[str] = []

    def await_work(self, operations: int = WITNESSED) -> None:
        """Return when it has printed the end of `operations` operations. Raises RuntimeError if it ends before."""
        assert self._running.stdout is not None
        while sum(not json.loads(line)["intends"] for line in self._lines) < operations:
            line = self._running.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.process} ended by itself with {self._running.wait()}")
            self._lines.append(line)

    def kill(self) -> None:
        """Kill it at once. Idempotent."""
        self._running.kill()
        assert self._running.stdout is not None
        if not self._running.stdout.closed:
            self._lines += [line for line in self._running.stdout if line.endswith("\n")]
            self._running.stdout.close()
        self._running.wait()

    def operations(self) -> Iterator[Operation]:
        """The operations that it printed; it must have been killed."""
        intended: Operation | None = None
        for line in self._lines:
            told = json.loads(line)
            operation = _operation(self.process, told)
            if not told["intends"]:
                yield operation
            intended = operation if told["intends"] else None
        if intended is not None:
            yield intended


def _operation(process: str, told: dict[str, list[list[str | int]]]) -> Operation:
    began, ended, outcome = told["times"]
    steps: list[Sent | Read] = [Sent((topic, part), value, offset) for topic, part, value, offset in told["sends"]]
    steps += [Read((topic, part), offset, value) for topic, part, value, offset in told["reads"]]
    assigned = frozenset((topic, part) for topic, part in told["assigned"])
    return Operation(process, Outcome[outcome], steps, began, ended, assigned)


class Telling(Recorder):
    """Prints each operation."""

    def intends(self, process: str, began: int, sends: Iterable[Sent]) -> None:
        _tell(Outcome.UNKNOWN, began, None, sends, (), intends=True)

    def note(
        self,
        process: str,
        outcome: Outcome,
        began: int,
        steps: Iterable[Sent | Read] = (),
        *,
        assigned: Iterable[Key] = (),
    ) -> None:
        ended = None if outcome is Outcome.UNKNOWN else self.now()
        _tell(outcome, began, ended, steps, assigned, intends=False)


def _tell(
    outcome: Outcome,
    began: int,
    ended: int | None,
    steps: Iterable[Sent | Read],
    assigned: Iterable[Key],
    *,
    intends: bool,
) -> None:
    steps = list(steps)
    told = {
        "intends": intends,
        "times": [began, ended, outcome.name],
        "sends": [[*each.key, each.value, each.offset] for each in steps if isinstance(each, Sent)],
        "reads": [[*each.key, each.value, each.offset] for each in steps if isinstance(each, Read)],
        "assigned": [list(key) for key in assigned],
    }
    print(json.dumps(told), flush=True)


def _worker(name: str, role: str, target: Target, group: str) -> Worker:
    clients, recorder = librdkafka_clients, Telling()
    if role == "plain":
        return PlainWorker(name, recorder, target, partial(clients.Plain, target))
    if role == "transactional":
        return TransactionWorker(name, recorder, target, partial(clients.Transactional, target, name))
    protocol = "consumer" if group.endswith("consumer") else "classic"
    return MemberWorker(name, recorder, target, partial(clients.Member, target, group, protocol))


if __name__ == "__main__":
    given_name, given_role, bootstrap, topic, partitions, given_group = sys.argv[1:]
    _worker(given_name, given_role, Target(bootstrap, topic, int(partitions)), given_group).run()
