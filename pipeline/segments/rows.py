"""The input and output of both decoders: batches' records, the filter of rows, and Arrow columns."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from odradek.pipeline.segments.filters import Condition, Values
from odradek.wire.records.batch import BatchHeader

pa: Any = importlib.import_module("pyarrow")
"""pyarrow, which has no types: imported only here, so that only one name is untyped."""

MICROSECONDS: Final = 1000
"""Microseconds per millisecond: Spark's timestamps are in the former, Kafka's in the latter."""
MAX_TIMESTAMP_MS: Final = (2**63 - 1) // MICROSECONDS

Array: TypeAlias = Any
"""A `pyarrow.Array`, which has no types."""

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", _HEADER))
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
COLUMN_TYPES: Final = (pa.binary(), pa.binary(), pa.int64(), TIMESTAMP_TYPE, pa.int32(), HEADERS_TYPE)


class Section(NamedTuple):
    """A batch: its header, and its decompressed records."""

    header: BatchHeader
    data: bytes | memoryview


class Columns(NamedTuple):
    """The columns of the kept rows, without topic and partition. `headers` is None unless requested."""

    key: Array
    value: Array
    offset: Array
    timestamp: Array
    timestamp_type: Array
    headers: Array | None = None


@dataclass(frozen=True)
class RowFilter:
    """Keeps rows with `start_offset` ≤ offset < `end_offset` that satisfy all conditions."""

    start_offset: int
    end_offset: int
    conditions: Sequence[Condition] = ()

    def passes(self, offset: Values, timestamp_us: Values) -> Values:
        """Return whether to keep a row, or each row of arrays."""
        kept = (offset >= self.start_offset) & (offset < self.end_offset)
        for each in self.conditions:
            kept = kept & each.holds(offset if each.column == "offset" else timestamp_us)
        return kept

    def takes_all(self, sections: Sequence[Section]) -> bool:
        """True if all rows of the batches are certainly kept."""
        first, last = sections[0].header, sections[-1].header
        return not self.conditions and first.base_offset >= self.start_offset and last.last_offset < self.end_offset
