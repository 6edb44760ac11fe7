"""What of the table goes where, partition by partition, counted by Spark over the columns of offsets and times."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.restoring.bounds import Bound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_BOUND: Final = Bound()


@dataclass(frozen=True, slots=True)
class Selected:
    """A partition's offsets that are restored: from `begin` up to but not with `end`."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's part of the plan, seen from the offset where the target ends.

    `count` rows are selected, from `first` to `last`. `remaining` of them are at the target's end or later, the first
    at `next`. `before` is the last offset of the whole table below the target's end. `left_out` counts rows between the
    target's end and the selection. Offsets are None where there is no such row.
    """

    selected: Selected
    count: int
    first: int | None
    last: int | None
    remaining: int
    next: int | None
    before: int | None
    left_out: int

    @property
    def missing(self) -> int:
        """Offsets between the first and the last remaining row that have no row."""
        return 0 if self.next is None or self.last is None else self.last + 1 - self.next - self.remaining


def select(rows: "DataFrame", start: Bound, until: Bound) -> dict[int, Selected]:
    """The offsets of each partition between the bounds; partitions without rows are left out."""
    from pyspark.sql import functions as f

    measures = [f.min("offset").alias("first"), (f.max("offset") + 1).alias("end")]
    for name, bound in (("from_time", start), ("until_time", until)):
        if bound.time_ms is not None:
            measures.append(f.min(f.when(f.unix_millis("timestamp") >= bound.time_ms, f.col("offset"))).alias(name))
    found: dict[int, Selected] = {}
    for row in rows.groupBy("partition").agg(*measures).collect():
        begin = _resolved(row, start, "from_time", row["first"])
        end = _resolved(row, until, "until_time", row["end"])
        found[row["partition"]] = Selected(begin, max(begin, end))
    return dict(sorted(found.items()))


def _resolved(row: Any, bound: Bound, time_column: str, default: int) -> int:  # noqa: ANN401 - a Spark row
    if bound.time_ms is not None:
        offset = row[time_column]
        return row["end"] if offset is None else offset
    offset = bound.of(row["partition"])
    return default if offset is None else offset


def shares(rows: "DataFrame", selected: Mapping[int, Selected], ends: Mapping[int, int]) -> dict[int, Share]:
    """Count each partition's rows against its selection and the target's end."""
    from pyspark.sql import functions as f

    if not selected:
        return {}
    offset, is_selected = f.col("offset"), in_selection(selected)
    end = by_partition(ends)
    remains = is_selected & (offset >= end)
    counted = rows.groupBy("partition").agg(
        f.count(f.when(is_selected, 1)).alias("count"),
        f.min(f.when(is_selected, offset)).alias("first"),
        f.max(f.when(is_selected, offset)).alias("last"),
        f.count(f.when(remains, 1)).alias("remaining"),
        f.min(f.when(remains, offset)).alias("next"),
        f.max(f.when(offset < end, offset)).alias("before"),
        f.count(f.when((offset >= end) & (offset < begin_of(selected)), 1)).alias("left_out"),
    )
    found = {row["partition"]: row.asDict() for row in counted.collect()}
    names = ("count", "first", "last", "remaining", "next", "before", "left_out")
    return {
        partition: Share(one, **{name: found[partition][name] for name in names}) for partition, one in selected.items()
    }


def in_selection(selected: Mapping[int, Selected]) -> "Column":
    """The condition that a row is selected."""
    from pyspark.sql import functions as f

    ends = by_partition({partition: one.end for partition, one in selected.items()})
    return (f.col("offset") >= begin_of(selected)) & (f.col("offset") < ends)


def begin_of(selected: Mapping[int, Selected]) -> "Column":
    """Where the selection of a row's partition begins."""
    return by_partition({partition: one.begin for partition, one in selected.items()})


def by_partition(values: Mapping[int, int]) -> "Column":
    """A number for each row by its partition; null for those that `values` does not name."""
    from pyspark.sql import functions as f

    pairs = [
        f.lit(number).cast(kind) for one in values.items() for number, kind in zip(one, ("int", "bigint"), strict=True)
    ]
    return f.element_at(f.create_map(*pairs), f.col("partition"))
