"""The tables of a database that make an export exactly once, and store the records that it could not write.

`odradek_offsets` has one row per partition, with the job's next offset. It is updated in the transaction that writes
the records up to it, so that both are committed or neither. The row is locked until then, and has the epoch of the
export that owns it: an export increments the epoch when it starts, which fences earlier ones. `odradek_dead_letters`
has the records that could not be written, with the reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

OFFSETS_TABLE: Final = "odradek_offsets"
DEAD_LETTERS_TABLE: Final = "odradek_dead_letters"


class FencedExportError(PipelineError):
    """Another export of the same job has started; this one has to end."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored progress of a partition: the next offset, and total counts of records by outcome."""

    next_offset: int
    epoch: int
    written: int = 0
    deleted: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be written, and the reason."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    error: str


def _tables() -> tuple["Table", "Table"]:
    from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, Text

    def place() -> list["Column[Any]"]:
        return [
            Column("job", Text, primary_key=True),
            Column("topic", Text, primary_key=True),
            Column("partition", Integer, primary_key=True, autoincrement=False),
        ]

    meta = MetaData()
    counts = [Column(name, BigInteger, nullable=False, default=0) for name in ("written", "deleted", "dead")]
    offsets = Table(
        OFFSETS_TABLE,
        meta,
        *place(),
        Column("next_offset", BigInteger, nullable=False),
        Column("epoch", BigInteger, nullable=False),
        *counts,
    )
    dead = Table(
        DEAD_LETTERS_TABLE,
        meta,
        *place(),
        Column("offset", BigInteger, primary_key=True, autoincrement=False),
        Column("timestamp_ms", BigInteger, nullable=False),
        Column("key", LargeBinary),
        Column("value", LargeBinary),
        Column("error", Text, nullable=False),
    )
    return offsets, dead


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """The rows of one job for one topic. All methods raise SQLAlchemy's errors and run in the caller's transaction."""

    job: str
    topic: str

    def prepare(self, connection: "Connection") -> None:
        """Create missing tables."""
        offsets, _ = _tables()
        offsets.metadata.create_all(connection)

    def take_over(self, connection: "Connection", starts: Mapping[int, int]) -> dict[int, Kept]:
        """Take ownership of the partitions, and fence earlier exports; partitions new to the job begin at `starts`.
        Returns the stored progress.
        """
        from sqlalchemy import insert, update

        offsets, _ = _tables()
        connection.execute(update(offsets).where(*self._mine(offsets)).values(epoch=offsets.c.epoch + 1))
        known = self.kept(connection)
        epoch = max((one.epoch for one in known.values()), default=1)
        new = {partition: Kept(start, epoch) for partition, start in starts.items() if partition not in known}
        if new:
            rows = [
                {
                    "job": self.job, "topic": self.topic, "partition": partition,
                    "next_offset": one.next_offset, "epoch": epoch, "written": 0, "deleted": 0, "dead": 0,
                }
                for partition, one in new.items()
            ]  # fmt: skip
            connection.execute(insert(offsets), rows)
        return known | new

    def kept(self, connection: "Connection") -> dict[int, Kept]:
        """Return the stored progress of each partition of the job."""
        from sqlalchemy import select

        offsets, _ = _tables()
        rows = connection.execute(select(offsets).where(*self._mine(offsets)))
        return {row.partition: Kept(row.next_offset, row.epoch, row.written, row.deleted, row.dead) for row in rows}

    def claim(self, connection: "Connection", partition: int, epoch: int) -> int:
        """Lock the partition until the transaction ends, and return its next offset. Raises FencedExportError."""
        from sqlalchemy import select

        offsets, _ = _tables()
        query = select(offsets.c.next_offset, offsets.c.epoch).where(*self._mine(offsets, partition)).with_for_update()
        found = connection.execute(query).one_or_none()
        if found is None or found.epoch != epoch:
            raise self.fenced()
        return found.next_offset

    def fenced(self) -> FencedExportError:
        """Return the error of an export whose epoch is not the stored one."""
        return FencedExportError(f"another export of job {self.job!r} has begun and goes on; this one ends")

    def advance(
        self, connection: "Connection", partition: int, to: int, *, written: int = 0, deleted: int = 0, dead: int = 0
    ) -> None:
        """Record that everything below `to` is done, in a claimed partition."""
        from sqlalchemy import update

        offsets, _ = _tables()
        changed = {
            "next_offset": to,
            "written": offsets.c.written + written,
            "deleted": offsets.c.deleted + deleted,
            "dead": offsets.c.dead + dead,
        }
        connection.execute(update(offsets).where(*self._mine(offsets, partition)).values(changed))

    def add_dead_letters(self, connection: "Connection", partition: int, letters: Sequence[DeadLetter]) -> None:
        """Store records that could not be written as dead letters."""
        from sqlalchemy import insert

        if not letters:
            return
        rows: Iterable[dict[str, Any]] = [
            {
                "job": self.job, "topic": self.topic, "partition": partition, "offset": one.offset,
                "timestamp_ms": one.timestamp_ms, "key": one.key, "value": one.value, "error": one.error,
            }
            for one in letters
        ]  # fmt: skip
        connection.execute(insert(_tables()[1]), list(rows))

    def _mine(self, table: "Table", partition: int | None = None) -> list["ColumnElement[bool]"]:
        mine = [table.c.job == self.job, table.c.topic == self.topic]
        return mine if partition is None else [*mine, table.c.partition == partition]
