"""The interface between the archive job and a table, the same for every format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odradek.pipeline.cluster import TopicPartition
from odradek.pipeline.table.manifest import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch to write: records in the table's schema, those that could not be parsed (None: none), the schema."""

    frame: "DataFrame | None"
    dead_letters: "DataFrame | None"
    schema: Any


class Staged(Protocol):
    """A batch that is written and does not count yet."""

    @property
    def written(self) -> Mapping[TopicPartition, int]:
        """The records of each partition that go into the table."""
        ...

    @property
    def dead(self) -> Mapping[TopicPartition, int]:
        """The records of each partition that are dead letters."""
        ...

    def write_dead_letters(self) -> None:
        """Write those, too."""
        ...

    def frame(self) -> "DataFrame":
        """topic, partition and offset of what was written."""
        ...

    def commit(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> None:
        """Let it count, in one step. Raises FencedError where another job has taken the table over."""
        ...

    def discard(self) -> None:
        """Leave nothing of it."""
        ...


class Sink(Protocol):
    """A table that batches are added to. Its own log or snapshots are what it is resumed from; empty before `open`."""

    path: str

    def open(self, schema: Any) -> None:  # noqa: ANN401 - a StructType
        """Make the table with this schema, or take it over. Raises PipelineError where it is not ours."""
        ...

    def refresh(self) -> None:
        """Look again what the table holds, after a failure that may have come after a commit."""
        ...

    @property
    def done(self) -> Mapping[TopicPartition, int]:
        """Where the archive of each partition goes on."""
        ...

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the topics that the table was made from."""
        ...

    @property
    def schema(self) -> Any:  # noqa: ANN401 - a StructType
        """The newest schema."""
        ...

    @property
    def record_bytes(self) -> float:
        """What a record needs on the disk, about."""
        ...

    def write(self, prepared: Prepared) -> Staged:
        """Write a batch so that it does not count yet."""
        ...
