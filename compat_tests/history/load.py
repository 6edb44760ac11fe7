"""Clients of all kinds on one topic of a cluster, and the check of their history.

An idempotent producer, a transactional one, a consumer with assigned partitions, and a group of each protocol; with a
JVM also the same clients of Java. `served_again` waits until every client is served, within the limit of `bounds`, and
so checks that a fault stops none of them; `judged` ends them, reads everything once more, and returns the violations of
the contract.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from compat_tests.history import java_clients, librdkafka_clients
from compat_tests.history.bounds import bound_s
from compat_tests.history.final import end_open_transactions, read_everything
from compat_tests.history.recorder import Recorder
from compat_tests.history.served import ServedTimes, Watch
from compat_tests.history.victims import Victim
from compat_tests.history.workers import MemberWorker, PlainWorker, ReadWorker, Target, TransactionWorker, Worker
from compat_tests.java_clients import JavaVm
from odradek.gateway.testing.cluster import TestCluster
from odradek.gateway.testing.history.checker import Contract, judge
from odradek.gateway.testing.history.operations import Operation

CAUGHT_UP_S = 120.0
STALLED_S = 30.0
"""As long as the producers' calls wait."""
ENDED_S = 60.0
"""The time within which the clients end after a failure; Java's need their JVM until then."""
PROTOCOLS = ("classic", "consumer")


class Load:
    """Runs inside `with`. `topic` must exist, with `partitions` partitions. `times` gets the measurements."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, java: JavaVm | None = None, times: ServedTimes | None = None
    ) -> None:
        self.times = times
        self.target = Target(bootstrap, topic, partitions)
        self.recorder = Recorder()
        self.producers: list[Worker] = []
        self.readers: list[Worker] = []
        self.members: dict[str, list[str]] = {}
        """The processes of each group's members."""
        self._groups: list[Worker] = []
        self._victims: list[Victim] = []
        self._add_librdkafka()
        if java is not None:
            self._add_java(java)

    def _add_librdkafka(self) -> None:
        rd, recorder, target = librdkafka_clients, self.recorder, self.target
        name = f"{target.topic}-rd"
        self.producers += [
            TransactionWorker(f"{name}-txn", recorder, target, partial(rd.Transactional, target, f"{name}-txn")),
            PlainWorker(f"{name}-plain", recorder, target, partial(rd.Plain, target)),
        ]
        self.readers.append(ReadWorker(f"{name}-read", recorder, target, partial(rd.Reading, target)))
        for protocol in PROTOCOLS:
            self._add_member(f"{name}-{protocol}", partial(rd.Member, target, f"{name}-{protocol}", protocol))

    def _add_java(self, java: JavaVm) -> None:
        recorder, target = self.recorder, self.target
        name, clients = f"{target.topic}-java", java_clients
        transactional = partial(clients.Transactional, java, target, f"{name}-txn")
        self.producers += [
            TransactionWorker(f"{name}-txn", recorder, target, transactional),
            PlainWorker(f"{name}-plain", recorder, target, partial(clients.Plain, java, target)),
        ]
        self.readers.append(ReadWorker(f"{name}-read", recorder, target, partial(clients.Reading, java, target)))
        for protocol in PROTOCOLS:
            make = partial(clients.Member, java, target, f"{name}-{protocol}", protocol)
            self._add_member(f"{name}-{protocol}", make)

    def _add_member(self, group: str, make: partial[librdkafka_clients.Member] | partial[java_clients.Member]) -> None:
        worker = MemberWorker(group, self.recorder, self.target, make)
        self._groups.append(worker)
        self.members[group] = [worker.process]

    @property
    def workers(self) -> list[Worker]:
        """The workers of all clients, without victims."""
        return self.producers + self.readers + self._groups

    def victim(self, role: str, *, group: str = "") -> Victim:
        """A client in a process of its own that the test kills: `plain`, `transactional`, or a `member` of `group`."""
        name = f"{self.target.topic}-victim{len(self._victims)}"
        victim = Victim(name, role, self.target, group)
        self._victims.append(victim)
        if group:
            self.members[group].append(name)
        return victim

    @contextmanager
    def away_from(self, cut_off: int, cluster: TestCluster) -> Iterator[None]:
        """Within the block, new clients do not bootstrap from `cut_off`, a broker that only clients can reach, and
        librdkafka's consumers are replaced if they stall.

        librdkafka asks for metadata and coordinators at the broker that it has used last. If that is the broker with
        old metadata, the answer is always that this broker is the leader and coordinator, as in Kafka, and the client
        never turns to another one: the application has to make a new client. Producers do so when a call fails.
        """
        self.target.bootstrap = cluster.bootstrap_without(cut_off)
        self.target.stalled_after_s = STALLED_S
        try:
            yield
        finally:
            self.target.bootstrap, self.target.stalled_after_s = cluster.bootstrap, None

    @contextmanager
    def served_since(self, fault: str, since: str) -> Iterator[None]:
        """Measure from the entry on; at the exit, wait until every client has been served. Raises TimeoutError."""
        watch = Watch([worker.process for worker in self.workers], self.target.keys)
        self.recorder.watch(watch)
        try:
            yield
            waited = {worker.process: self._await_served(watch, worker, fault, since) for worker in self.workers}
        finally:
            self.recorder.unwatch(watch)
        late = [
            f"{worker.process} waits for {watch.missing(worker.process)}; {worker.state}"
            for worker in self.workers
            if not waited[worker.process]
        ]
        if late:
            raise TimeoutError(f"not served since {since} of {fault}: {'; '.join(late)}")

    def _await_served(self, watch: Watch, worker: Worker, fault: str, since: str) -> bool:
        client = worker.process.removeprefix(f"{self.target.topic}-")
        seconds = watch.wait(worker.process, bound_s(fault))
        if self.times is not None:
            self.times.add(fault, since, client, seconds, watch.pause_s(worker.process))
        return seconds is not None

    def served_again(self, fault: str, since: str) -> None:
        """Return when every client has been served from now on. Raises TimeoutError."""
        with self.served_since(fault, since):
            pass

    def judged(self) -> list[str]:
        """End all clients, check their history, and return a description of each error."""
        for worker in self.producers:
            worker.finish()
        for victim in self._victims:
            self.recorder.add(victim.operations())
        end_open_transactions(
            self.target, [each.process for each in self.producers + self._victims if each.is_transactional]
        )
        read_everything(self.target, self.recorder)
        behind = self._await_groups()
        for worker in self.readers + self._groups:
            worker.finish()
        history = self.recorder.history()
        found = [f"{group} did not read everything" for group in behind]
        of_members = {process for members in self.members.values() for process in members}
        found += _errors(history, of_members, Contract())
        for members in self.members.values():
            others = {each.process for each in history if any(each.reads)} - set(members)
            found += _errors(history, others, Contract(subscribes=True))
        assert any(any(each.reads) for each in history if each.process == "last")
        return found

    def _await_groups(self) -> list[str]:
        """Wait until each group has read everything; return the groups that have not within `CAUGHT_UP_S`."""
        everything = {(read.key, read.value) for each in self._of({"last"}) for read in each.reads}
        deadline = time.monotonic() + CAUGHT_UP_S
        behind = list(self.members)
        while behind and time.monotonic() < deadline:
            time.sleep(0.2)
            behind = [
                group
                for group, members in self.members.items()
                if not everything <= {(read.key, read.value) for each in self._of(set(members)) for read in each.reads}
            ]
        return behind

    def _of(self, processes: set[str]) -> list[Operation]:
        return [each for each in self.recorder.history() if each.process in processes]

    def __enter__(self) -> Self:
        for worker in self.workers:
            worker.start()
        self.served_again("none", "start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for victim in self._victims:
            victim.kill()
        for worker in self.workers:
            worker.stopping.set()
        deadline = time.monotonic() + ENDED_S
        for worker in self.workers:
            worker.join(max(deadline - time.monotonic(), 0))


def _errors(history: list[Operation], without: set[str], contract: Contract) -> list[str]:
    """The errors in the history without these processes."""
    return [str(each) for each in judge([each for each in history if each.process not in without], contract).errors]
