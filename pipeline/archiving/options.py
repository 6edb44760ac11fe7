"""The user's options for an archive."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from odradek.pipeline.archiving.planning import Start
from odradek.pipeline.values.parsing import Parsing

TableFormat = Literal["parquet", "iceberg"]
PartitionBy = Literal["none", "date", "hour"]
FIRST: Final = Start()
MAX_OFFSETS: Final = 2_000_000
TARGET_SIZE_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Archiving:
    """The options of `archive`; see there."""

    topics: tuple[str, ...]
    to: str
    table_format: TableFormat = "parquet"
    start: Start = FIRST
    group: str | None = None
    value: Parsing | None = None
    key: Parsing | None = None
    drop_raw: bool = False
    partition_by: PartitionBy = "none"
    max_offsets: int = MAX_OFFSETS
    target_size_bytes: int = TARGET_SIZE_BYTES
    allow_loss: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Return the options that are stored in the table; later runs must use the same."""
        return {
            "format": self.table_format,
            "partition-by": self.partition_by,
            "value": self.value.kind if self.value else None,
            "key": self.key.kind if self.key else None,
            "drop-raw": self.drop_raw,
        }
