"""The report of a job: a line per partition, skipped offsets by reason, and whether it is complete."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.gateway.cli.output import table


@dataclass(slots=True)
class PartitionReport:
    """One partition's part of a job. Offsets are half-open: from `from_offset` up to, but excluding, `to_offset`.
    `read` and `written` count records. `skipped` counts offsets without a written record, by reason, such as
    "transaction marker" or "dead letter".
    """

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    read: int = 0
    written: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class Report:
    """The result of a job. `complete` is False if the job could not do everything; `notes` are remarks for
    the user, among them what is missing. `details` are further facts of one kind of job, for JSON.
    """

    job: str
    partitions: list[PartitionReport] = field(default_factory=list[PartitionReport])
    complete: bool = True
    notes: list[str] = field(default_factory=list[str])
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def read(self) -> int:
        """The number of records read from all partitions."""
        return sum(one.read for one in self.partitions)

    @property
    def written(self) -> int:
        """The number of records written of all partitions."""
        return sum(one.written for one in self.partitions)

    @property
    def skipped(self) -> Counter[str]:
        """The number of offsets without a written record of all partitions, by reason."""
        return sum((one.skipped for one in self.partitions), Counter[str]())

    def incomplete(self, note: str) -> None:
        """Mark the report as incomplete, with a note; the command exits with code 1."""
        self.complete = False
        self.notes.append(note)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values: the document that `--json` prints."""
        return {
            "job": self.job,
            "complete": self.complete,
            "read": self.read,
            "written": self.written,
            "skipped": dict(self.skipped),
            "partitions": [_as_json(one) for one in self.partitions],
            "notes": self.notes,
            **self.details,
        }

    def print_table(self) -> None:
        """Print it as text on stdout."""
        rows = [
            [one.topic, one.partition, one.from_offset, one.to_offset, one.read, one.written, _reasons(one.skipped)]
            for one in self.partitions
        ]
        table(["TOPIC", "PARTITION", "FROM", "TO", "READ", "WRITTEN", "SKIPPED"], rows)


def _as_json(one: PartitionReport) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "from_offset": one.from_offset,
        "to_offset": one.to_offset,
        "read": one.read,
        "written": one.written,
        "skipped": dict(one.skipped),
    }


def _reasons(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()) if count)
