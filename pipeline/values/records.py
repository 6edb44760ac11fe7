"""Formats that are decoded record by record in Python, in Spark's Python workers."""

# ruff: noqa: ANN401 - Spark's and Arrow's types; both are imported late
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.growth import merged
from odradek.pipeline.values.parsing import Framing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Decode = Callable[[bytes], Any]
"""Converts bytes to a dict of the struct's fields; may raise any error for invalid bytes."""
MAGIC: Final = 0
SCHEMA_ID_BYTES: Final = 5
LONGEST_ERROR: Final = 300


class RecordParser:
    """A Parser that decodes each record with the result of `make_decode()`, called in the worker; `kind` is its
    struct.
    """

    def __init__(self, kind: Any, make_decode: Callable[[], Decode]) -> None:
        self._kind, self._make_decode = kind, make_decode

    def type_for(self, frame: "DataFrame", column: str, known: Any) -> tuple[Any, Sequence[str]]:
        """See Parser. Raises PipelineError if the schema conflicts with the table's."""

        def conflict(path: str, old: Any, new: Any) -> None:
            what = "another field by case" if new is None else f"{old.simpleString()}, not {new.simpleString()}"
            raise PipelineError(f"{column}: in the table {path!r} is {what}: archive this schema to another path")

        return (self._kind if known is None else merged(known, self._kind, conflict)), ()

    def parse(self, frame: "DataFrame", column: str, kind: Any, parsed: str, error: str) -> "DataFrame":
        """See Parser."""
        from pyspark.sql.types import StringType, StructField, StructType

        schema = StructType([*frame.schema.fields, StructField(parsed, kind), StructField(error, StringType())])
        mapping: Any = _Mapping(column, kind, self._make_decode)
        return frame.mapInArrow(mapping, schema)


class _Mapping:
    """The decoding function for `mapInArrow`, which runs in Spark's workers."""

    def __init__(self, column: str, kind: Any, make_decode: Callable[[], Decode]) -> None:
        self._column, self._kind, self._make_decode = column, kind, make_decode

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        decode, arrow = self._make_decode(), to_arrow_type(self._kind)
        for batch in batches:
            pairs = [_decoded(decode, value) for value in batch.column(self._column).to_pylist()]
            values, errors = _as_arrow(pairs, arrow)
            arrays = [*batch.columns, values, pa.array(errors, pa.string())]
            names = [*batch.schema.names, "parsed", "error"]  # Spark assigns columns by position
            yield pa.RecordBatch.from_arrays(arrays, names)


def _decoded(decode: Decode, value: bytes | None) -> tuple[Any, str | None]:
    if value is None:
        return None, None
    try:
        return decode(value), None
    except Exception as error:  # noqa: BLE001 - libraries raise any exception for invalid bytes
        return None, f"{type(error).__name__}: {error}"[:LONGEST_ERROR]


def _as_arrow(pairs: Sequence[tuple[Any, str | None]], arrow: Any) -> tuple[Any, list[str | None]]:
    """Return the values as one array; values that do not fit its type become errors."""
    import pyarrow as pa

    errors = [error for _, error in pairs]
    try:
        return pa.array([value for value, _ in pairs], arrow), errors
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        single = [_single(value, arrow) for value, _ in pairs]
        return (
            pa.concat_arrays([array for array, _ in single]),
            [error or late for error, (_, late) in zip(errors, single, strict=True)],
        )


def _single(value: Any, arrow: Any) -> tuple[Any, str | None]:
    import pyarrow as pa

    try:
        return pa.array([value], arrow), None
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        return pa.array([None], arrow), f"{type(error).__name__}: {error}"[:LONGEST_ERROR]


def unframed(value: bytes, framing: Framing) -> bytes:
    """Return the bytes after a schema registry's schema id. Raises ValueError if there is none."""
    if framing == "none":
        return value
    if len(value) < SCHEMA_ID_BYTES or value[0] != MAGIC:
        raise ValueError("no schema id of a Confluent registry")
    return value[SCHEMA_ID_BYTES:]
