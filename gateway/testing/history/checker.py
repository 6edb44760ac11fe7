"""Finds all anomalies of a history, and separates those that Kafka's contract allows."""

import dataclasses
from collections.abc import Iterator
from typing import Final

from odradek.gateway.testing.history.anomalies import Anomaly, Finding
from odradek.gateway.testing.history.cycles import cycles
from odradek.gateway.testing.history.operations import History
from odradek.gateway.testing.history.order import order_of_polls, order_of_sends
from odradek.gateway.testing.history.records import (
    aborted_reads,
    lost_writes,
    precommitted_reads,
    torn_transactions,
    unknown_values,
    unseen,
)
from odradek.gateway.testing.history.versions import Versions, duplicates, inconsistent_offsets

ALWAYS_ALLOWED: Final = frozenset({Anomaly.SEND_SKIP_INSIDE, Anomaly.WRITE_CYCLE, Anomaly.READ_CYCLE_WRITES})


@dataclasses.dataclass(frozen=True, slots=True)
class Contract:
    """The guarantees that the clients of a history have.

    `read_to_end`: the last polls reached the end of every partition, so that a record that none returned is lost.
    `subscribes`: consumers are members of a group, whose positions may jump at a rebalance that they do not report.
    `idempotent`: producers do not duplicate records when they retry. `one_in_flight`: a producer sends one batch at a
    time, or is idempotent, so that its records keep their order. `read_committed`: all consumers use that isolation
    level. `atomic`: an operation that sends several records is a transaction, of which all or none must be read.
    """

    read_to_end: bool = True
    subscribes: bool = False
    idempotent: bool = True
    one_in_flight: bool = True
    read_committed: bool = True
    atomic: bool = True

    def allows(self, anomaly: Anomaly) -> bool:
        """True if the anomaly is not an error.

        Transactions append to partitions immediately and are not isolated from each other's writes: another client's
        record may be between two of theirs, and two transactions may be in a different order in two partitions.
        """
        return anomaly in ALWAYS_ALLOWED or anomaly in self._allowed_here()

    def _allowed_here(self) -> set[Anomaly]:
        allowed: set[Anomaly] = set()
        if not self.read_to_end:
            allowed |= {Anomaly.UNSEEN, Anomaly.TORN_TRANSACTION}
        if not self.atomic:
            allowed.add(Anomaly.TORN_TRANSACTION)
        if self.subscribes:
            allowed |= {Anomaly.POLL_SKIP, Anomaly.POLL_BACK}
        if not self.idempotent:
            allowed.add(Anomaly.DUPLICATE)
        if not self.one_in_flight:
            allowed |= {Anomaly.SEND_BACK, Anomaly.SEND_BACK_INSIDE}
        if not self.read_committed:
            allowed |= {Anomaly.ABORTED_READ, Anomaly.PRECOMMITTED_READ}
            allowed |= {Anomaly.READ_CYCLE, Anomaly.READ_CYCLE_PROCESS, Anomaly.READ_CYCLE_REALTIME}
        return allowed


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The result: `errors` violate the contract, `allowed` are anomalies that it allows."""

    errors: tuple[Finding, ...]
    allowed: tuple[Finding, ...]
    records: int
    reads: int

    @property
    def is_valid(self) -> bool:
        """True if no anomaly violates the contract."""
        return not self.errors

    def __str__(self) -> str:
        lines = [f"{self.records} records, {self.reads} reads, {len(self.errors)} errors"]
        return "\n".join(lines + [str(finding) for finding in self.errors[:20]])


def judge(history: History, contract: Contract = Contract()) -> Verdict:
    """Look for all anomalies. Raises ValueError if an operation read a record that no operation sent."""
    versions = Versions(history)
    unknown = unknown_values(history, versions)
    if unknown:
        raise ValueError(f"{len(unknown)} records were read that no operation sent, the first {unknown[0]}")
    found = list(_findings(history, versions))
    return Verdict(
        tuple([finding for finding in found if not contract.allows(finding.anomaly)]),
        tuple([finding for finding in found if contract.allows(finding.anomaly)]),
        records=len(versions.writer),
        reads=sum([1 for operation in history for _ in operation.reads]),
    )


def _findings(history: History, versions: Versions) -> Iterator[Finding]:
    yield from inconsistent_offsets(versions)
    yield from duplicates(versions)
    yield from aborted_reads(history, versions)
    yield from precommitted_reads(history)
    yield from lost_writes(history, versions)
    yield from unseen(history, versions)
    yield from torn_transactions(history, versions)
    yield from order_of_polls(history, versions)
    yield from order_of_sends(history, versions)
    yield from cycles(history, versions)
