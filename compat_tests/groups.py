"""Controls group members in worker processes: start, close, kill, and wait for their reports."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from compat_tests.processes import ROOT, Guard

SESSION_MS = 3000


class Members:
    """The members of one group, in any number of worker processes, and everything they reported."""

    def __init__(self, client: str, bootstrap: str, group: str, topic: str, session_ms: int = SESSION_MS) -> None:
        self._arguments = [client, bootstrap, group, topic, str(session_ms)]
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._guards: list[Guard] = []
        self._where: dict[str, str] = {}
        self._readers: list[threading.Thread] = []
        self._changed = threading.Condition()
        self.assigned: dict[str, list[int]] = {}
        self.records: list[tuple[str, list[Any]]] = []
        self.troubles: list[str] = []
        self.logs: list[tuple[str, str]] = []  # by worker: client threads don't report for which member they log
        self.closed: set[str] = set()

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._processes):
            self.kill(worker)
        for guard in self._guards:
            guard.release()

    def start(self, member: str, worker: str = "w") -> None:
        """Starts a member in a worker process, which is started if it is new."""
        if worker not in self._processes:
            self._spawn(worker)
        self._where[member] = worker
        self._tell(worker, f"start {member}")

    def close(self, member: str) -> None:
        """Closes a member and waits until it has left the group."""
        self._tell(self._where[member], f"close {member}")
        self.wait(lambda: member in self.closed, f"{member} to close")

    def close_soon(self, member: str) -> None:
        """Closes a member without waiting."""
        self._tell(self._where[member], f"close {member}")

    def kill(self, worker: str) -> None:
        """``kill -9`` a worker with all its members."""
        process = self._processes.pop(worker)
        process.kill()
        process.wait(timeout=20)
        for reader in [r for r in self._readers if r.name == worker]:
            reader.join(timeout=20)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        with self._changed:
            for member in [m for m, w in self._where.items() if w == worker]:
                self.assigned.pop(member, None)

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Returns when the condition holds; it is checked after each report of a member."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimeoutError(f"gave up waiting for {what}: {self._state()}")

    def sizes(self) -> list[int]:
        """The number of partitions of each live member, sorted."""
        return sorted(len(held) for member, held in self.assigned.items() if member not in self.closed)

    def holds_all(self, partitions: int) -> bool:
        """True if every partition is assigned to exactly one live member."""
        held = [p for m, ps in self.assigned.items() if m not in self.closed for p in ps]
        return sorted(held) == list(range(partitions))

    def values(self) -> set[str]:
        """The values of all records that members received."""
        return {record[2] for _, record in self.records}

    def _spawn(self, worker: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "compat_tests.group_worker", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._processes[worker] = process
        self._guards.append(Guard(f"kill -9 {process.pid}"))
        reader = threading.Thread(target=self._read, args=(process, worker), name=worker, daemon=True)
        self._readers.append(reader)
        reader.start()

    def _tell(self, worker: str, command: str) -> None:
        pipe = self._processes[worker].stdin
        assert pipe is not None
        pipe.write(command + "\n")
        pipe.flush()

    def _read(self, process: subprocess.Popen[str], worker: str) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(json.JSONDecodeError):  # the last line of a killed worker may be incomplete
                self._note(json.loads(line), worker)

    def _note(self, said: dict[str, Any], worker: str) -> None:
        member = said.get("member", "")
        with self._changed:
            if "assigned" in said:
                self.assigned[member] = said["assigned"]
            elif "record" in said:
                self.records.append((member, said["record"]))
            elif "trouble" in said:
                self.troubles.append(said["trouble"])
            elif "log" in said:
                self.logs.append((worker, said["log"]))
            elif "closed" in said:
                self.closed.add(member)
            self._changed.notify_all()

    def _state(self) -> str:
        return f"assigned {self.assigned}, closed {self.closed}, troubles {self.troubles[-3:]}, logs {self.logs[-5:]}"
