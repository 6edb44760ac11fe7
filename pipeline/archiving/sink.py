"""The interface between the archive job and a table, the same for every format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from odradek.pipeline.table.manifest import OffsetRange
from odradek.pipeline.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch to write: records in the table's schema (None: no records), those that could not be parsed (None: parsing
    is off), and the schema.
    """

    frame: "DataFrame | None"
    dead_letters: "DataFrame | None"
    schema: Any


class Staged(Protocol):
    """A written batch that is not yet part of the table."""

    @property
    def written(self) -> Mapping[TopicPartition, int]:
        """The number of each partition's records for the table."""
        ...

    @property
    def dead(self) -> Mapping[TopicPartition, int]:
        """The number of each partition's dead letters."""
        ...

    def write_dead_letters(self) -> None:
        """Write the dead letters."""
        ...

    def frame(self) -> "DataFrame":
        """Return topic, partition and offset of the written records."""
        ...

    def commit(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> None:
        """Add it to the table atomically. Raises FencedError if another job has taken the table over."""
        ...

    def discard(self) -> None:
        """Delete it."""
        ...


class Sink(Protocol):
    """A table that batches are added to. A run resumes from the table's own log or snapshots.

    `done` and `topic_ids` are empty before `open`; `schema` and `write` need it.
    """

    path: str

    def open(self, schema: Any) -> None:  # noqa: ANN401 - a StructType
        """Create the table with this schema, or take it over. Raises PipelineError if it is not a table of the archive
        job.
        """
        ...

    def refresh(self) -> None:
        """Read the table's state again. Called before each attempt of a batch: a failed commit may have succeeded."""
        ...

    @property
    def done(self) -> Mapping[TopicPartition, int]:
        """The next offset to archive of each partition."""
        ...

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of the table's topics."""
        ...

    @property
    def schema(self) -> Any:  # noqa: ANN401 - a StructType
        """The newest schema."""
        ...

    @property
    def record_bytes(self) -> float:
        """The approximate size of a record on disk."""
        ...

    def write(self, prepared: Prepared) -> Staged:
        """Write a batch without adding it to the table."""
        ...
