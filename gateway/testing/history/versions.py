"""The order of records: for each partition, the values by offset, from everything that clients have observed."""

from collections import defaultdict
from collections.abc import Iterator

from odradek.gateway.testing.history.anomalies import Anomaly, Finding
from odradek.gateway.testing.history.operations import History, Key, Operation, Outcome, Value


class Versions:
    """The order of each partition's records.

    A record counts if a poll has returned it, or if the operation that sent it succeeded. The sends of an operation
    with an unknown outcome count if a poll has returned any of them. Offsets without such a record (markers, aborted
    and compacted records) are left out, so that neighbouring records have neighbouring indexes.
    """

    def __init__(self, history: History) -> None:
        self.offsets: dict[Key, dict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        self.index: dict[tuple[Key, Value], int] = {}
        """The index of each record in its partition's order; the lowest one of a duplicated record."""
        self.last_index: dict[tuple[Key, Value], int] = {}
        """As `index`, with the highest index of a duplicated record."""
        self.order: dict[Key, list[Value]] = {}
        self.read: set[tuple[Key, Value]] = set()
        """The records that a poll has returned."""
        self.taken: set[tuple[Key, Value]] = set()
        """The records that polls have returned in operations that have not failed; other records must be read again."""
        self.writer: dict[tuple[Key, Value], Operation] = {}
        for operation in history:
            self._note_reads(operation)
        for operation in history:
            self._note_sends(operation)
        for key, at in self.offsets.items():
            self._number(key, at)

    def _note_reads(self, operation: Operation) -> None:
        for read in operation.reads:
            self.offsets[read.key][read.offset].add(read.value)
            self.read.add((read.key, read.value))
            if operation.outcome is not Outcome.FAILED:
                self.taken.add((read.key, read.value))

    def _note_sends(self, operation: Operation) -> None:
        sends = list(operation.sends)
        counts = operation.outcome is Outcome.OK or (
            operation.outcome is Outcome.UNKNOWN and any((sent.key, sent.value) in self.read for sent in sends)
        )
        for sent in sends:
            self.writer[sent.key, sent.value] = operation
            if counts and sent.offset is not None:
                self.offsets[sent.key][sent.offset].add(sent.value)

    def _number(self, key: Key, at: dict[int, set[Value]]) -> None:
        order = self.order[key] = []
        for index, offset in enumerate(sorted(at)):
            values = sorted(at[offset], key=str)
            order.append(values[0])
            for value in values:
                self.index.setdefault((key, value), index)
                self.last_index[key, value] = index


def inconsistent_offsets(versions: Versions) -> Iterator[Finding]:
    """Offsets at which different records were observed."""
    for key, at in versions.offsets.items():
        for offset, values in at.items():
            if len(values) > 1:
                yield Finding(
                    Anomaly.INCONSISTENT_OFFSETS, f"{key} offset {offset} has been {sorted(map(str, values))}"
                )


def duplicates(versions: Versions) -> Iterator[Finding]:
    """Records that are at several offsets."""
    for key, at in versions.offsets.items():
        offsets_of: dict[Value, list[int]] = defaultdict(list)
        for offset, values in at.items():
            for value in values:
                offsets_of[value].append(offset)
        for value, offsets in offsets_of.items():
            if len(offsets) > 1:
                yield Finding(Anomaly.DUPLICATE, f"{key} has {value} at the offsets {sorted(offsets)}")
