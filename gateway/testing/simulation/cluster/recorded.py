"""Oracles that also write a history of all operations, for the checker of `odradek.gateway.testing.history`.

In a cluster, a former coordinator that has not yet received the metadata of the change may answer requests that only
read, as in Kafka. So the offsets and members of a group in answers may be old; commits may not.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from odradek.gateway.testing.history.operations import History, Key, Operation, Outcome, Read, Sent
from odradek.gateway.testing.simulation.loads import transaction_oracle
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Oracle, check
from odradek.gateway.testing.simulation.loads.transaction_oracle import Transaction, TransactionOracle


@dataclasses.dataclass(slots=True)
class _Open:
    """An operation under way."""

    process: str
    began: int
    sends: dict[tuple[Key, str], int | None] = dataclasses.field(default_factory=dict[tuple[Key, str], int | None])
    ended: int | None = None
    outcome: Outcome = Outcome.UNKNOWN

    def done(self) -> Operation:
        steps = [Sent(key, value, offset) for (key, value), offset in self.sends.items()]
        return Operation(self.process, self.outcome, steps, self.began, self.ended)


class Recorder:
    """The operations of all clients of one topic, in the order in which they began."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._operations: list[_Open | Operation] = []
        self._clock = 0

    def tick(self) -> int:
        """The next position in the order of all events."""
        self._clock += 1
        return self._clock

    def begin(self, process: str) -> _Open:
        """Add an operation that begins now."""
        operation = _Open(process, self.tick())
        self._operations.append(operation)
        return operation

    def read(self, process: str, partition: int, log: Sequence[tuple[int, str]], assigned: frozenset[Key]) -> None:
        """Add a poll that returned these records."""
        key = (self.topic, partition)
        steps = [Read(key, offset, value) for offset, value in log]
        began = self.tick()
        self._operations.append(Operation(process, Outcome.OK, steps, began, self.tick(), assigned))

    def history(self) -> History:
        """All operations up to now."""
        return [each if isinstance(each, Operation) else each.done() for each in self._operations]


class RecordedOracle(Oracle):
    """See `Oracle`."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.recorder = Recorder(topic)
        self._sends: dict[tuple[int, str], _Open] = {}
        self._assigned: dict[str, set[int]] = {}
        self._ever_committed: set[tuple[int, int]] = set()

    def produced(self, producer: str, partition: int, values: Sequence[str]) -> None:
        """See `Oracle.produced`."""
        super().produced(producer, partition, values)
        operation = self.recorder.begin(producer)
        for value in values:
            operation.sends[(self.recorder.topic, partition), value] = None
            self._sends[partition, value] = operation

    def was_acknowledged(self, partition: int, base_offset: int, values: Sequence[str]) -> None:
        """See `Oracle.was_acknowledged`."""
        for offset, value in enumerate(values, base_offset):
            operation = self._sends[partition, value]
            operation.sends[(self.recorder.topic, partition), value] = offset
            operation.outcome, operation.ended = Outcome.OK, self.recorder.tick()
        super().was_acknowledged(partition, base_offset, values)

    def was_read(
        self,
        reader: str,
        partition: int,
        position: int,
        end_offset: int,
        log: Sequence[tuple[int, str]],
        *,
        gaps: bool = False,
    ) -> None:
        """See `Oracle.was_read`."""
        if log:
            assigned = self._assigned.get(reader, set())
            anew = frozenset({(self.recorder.topic, partition)}) if partition in assigned else frozenset[Key]()
            assigned.discard(partition)
            self.recorder.read(reader, partition, log, anew)
        super().was_read(reader, partition, position, end_offset, log, gaps=gaps)

    def takes(self, member: str, partitions: Iterable[int]) -> None:
        """See `Oracle.takes`."""
        self._assigned.setdefault(member, set()).update(partitions)

    def heartbeat_succeeded(self, member: str, reassigned: frozenset[int]) -> None:
        """See `Oracle.heartbeat_succeeded`; not checked, since a former coordinator may answer without an error."""

    def will_commit(self, partition: int, offset: int) -> None:
        """See `Oracle.will_commit`."""
        self._ever_committed.add((partition, offset))
        super().will_commit(partition, offset)

    def commit_seen(self, member: str, partition: int, offset: int) -> None:
        """See `Oracle.commit_seen`; any offset that was ever sent is allowed."""
        check(
            offset == -1 or (partition, offset) in self._ever_committed,
            Invariant.COMMITS_KEPT,
            f"{member} sees {offset} committed for {partition}, which was never sent",
        )


class RecordedTransactions(TransactionOracle):
    """See `TransactionOracle`."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.recorder = Recorder(topic)
        self._open: dict[Transaction, _Open] = {}

    def begin(self, transactional_id: str) -> Transaction:
        """See `TransactionOracle.begin`."""
        transaction = super().begin(transactional_id)
        # Fenced producers continue beside their successors, so each transaction is recorded as a separate client.
        self._open[transaction] = self.recorder.begin(str(transaction))
        return transaction

    def new_value(self, transaction: Transaction, partition: int) -> str:
        """See `TransactionOracle.new_value`."""
        value = super().new_value(transaction, partition)
        self._open[transaction].sends[(self.recorder.topic, partition), value] = None
        return value

    def was_acknowledged(self, transaction: Transaction, partition: int, base_offset: int, values: list[str]) -> None:
        """See `TransactionOracle.was_acknowledged`."""
        for offset, value in enumerate(values, base_offset):
            self._open[transaction].sends[(self.recorder.topic, partition), value] = offset
        super().was_acknowledged(transaction, partition, base_offset, values)

    def was_committed(self, transaction: Transaction) -> None:
        """See `TransactionOracle.was_committed`."""
        super().was_committed(transaction)
        self._end(transaction, Outcome.OK)

    def was_given_up(self, transaction: Transaction) -> None:
        """See `TransactionOracle.was_given_up`."""
        super().was_given_up(transaction)
        if transaction.outcome is transaction_oracle.Outcome.ABORTED:
            self._end(transaction, Outcome.FAILED)

    def _end(self, transaction: Transaction, outcome: Outcome) -> None:
        operation = self._open[transaction]
        operation.outcome, operation.ended = outcome, self.recorder.tick()

    def was_read(
        self, reader: str, partition: int, position: int, stable_offset: int, log: list[tuple[int, str]]
    ) -> None:
        """See `TransactionOracle.was_read`."""
        if log:
            anew = frozenset({(self.recorder.topic, partition)}) if position == 0 else frozenset[Key]()
            self.recorder.read(reader, partition, log, anew)
        super().was_read(reader, partition, position, stable_offset, log)

    def offset_seen(self, transactional_id: str, floor: int, offset: int) -> None:
        """See `TransactionOracle.offset_seen`; an older committed offset is allowed."""
        super().offset_seen(transactional_id, min(floor, offset), offset)
