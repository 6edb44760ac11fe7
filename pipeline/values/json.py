"""JSON objects with Spark's parser, in the JVM."""

# ruff: noqa: ANN401, SLF001 - Spark's types, and its reader of a Dataset of strings, which PySpark does not have
# pyright: reportUnknownMemberType=false, reportPrivateUsage=false, reportUnknownArgumentType=false

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.table.growth import merged
from odradek.pipeline.values.parsing import Parsing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORRUPT: Final = "_odradek_corrupt"
_END: Final = "_odradek_end"


class JsonParser:
    """Parses values as JSON objects in UTF-8. A text column accepts any JSON value, as its text."""

    def __init__(self, spark: "SparkSession", parsing: Parsing) -> None:
        self._spark = spark
        self._given = None if parsing.schema is None else _read_schema(parsing)

    def type_for(self, frame: "DataFrame", column: str, known: Any) -> tuple[Any, Sequence[str]]:
        """See Parser. For a type that conflicts with the table's there is a note, and records with it are not
        parsed.
        """
        from pyspark.sql.types import StructType

        conflicts = _Conflicts(column)
        before = known if known is not None else StructType([])
        found = self._given if self._given is not None else self._infer(frame, column)
        kind = merged(before, found, conflicts.conflict)
        if conflicts.types and self._given is None:
            # Spark infers text for a field with two types in one batch, so infer again from the objects that fit.
            fitting = frame.where(_fits(column, _widest(before)))
            kind = merged(before, self._infer(fitting, column), _Conflicts(column).conflict)
        return (kind if kind.fields else None), conflicts.notes

    def _infer(self, frame: "DataFrame", column: str) -> Any:
        """Return the fields of all objects of a batch, without fields that are always null."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        text = frame.where(f.expr(_is_object(column))).select(f.col(column).cast("string"))
        jvm: Any = self._spark.sparkContext._jvm
        strings = getattr(text._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
        reader = self._spark.read.option("dropFieldIfAllNull", "true").option("columnNameOfCorruptRecord", CORRUPT)
        found = StructType.fromJson(json.loads(reader._jreader.json(strings).schema().json()))
        return StructType([field for field in found.fields if field.name != CORRUPT])

    def parse(self, frame: "DataFrame", column: str, kind: Any, parsed: str, error: str) -> "DataFrame":
        """See Parser."""
        from pyspark.sql import functions as f

        is_object = f.expr(_is_object(column))
        not_object = f.when(f.expr(f"NOT is_valid_utf8({column})"), "not UTF-8").when(~is_object, "not a JSON object")
        if kind is None:
            return frame.withColumns({error: f.when(f.col(column).isNotNull(), not_object)})
        whole = f"{column}_json"
        with_json = frame.withColumn(whole, f.when(is_object, _whole(f.col(column), kind)))
        fits = f.col(whole).getField(CORRUPT).isNull()
        misfit = f"does not fit the table's fields {kind.simpleString()}"[:1000]
        fields = [f.col(whole).getField(field.name).alias(field.name) for field in kind.fields]
        return with_json.withColumns(
            {
                parsed: f.when(is_object & fits, f.struct(*fields)),
                error: f.when(f.col(column).isNotNull(), not_object.when(~fits, misfit)),
            }
        ).drop(whole)


def _is_object(column: str) -> str:
    """Return an expression that is true if the bytes are exactly one JSON object.

    Spark's parser reads the first value and ignores the rest. So the text is wrapped in another object, in which a rest
    would be invalid or add keys.
    """
    text = f"CAST({column} AS STRING)"
    return (
        f"coalesce(is_valid_utf8({column}) AND startswith(ltrim(' \\n\\r\\t', {text}), '{{') AND "
        f"json_object_keys(concat('{{\"v\":', {text}, ',\"{_END}\":1}}')) = array('v', '{_END}'), false)"
    )


def _fits(column: str, kind: Any) -> Any:
    """Return a condition that is true if an object can be parsed with these fields."""
    from pyspark.sql import functions as f

    return _whole(f.col(column), kind).getField(CORRUPT).isNull()


def _whole(column: Any, kind: Any) -> Any:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*kind.fields, StructField(CORRUPT, StringType())])
    return f.from_json(column.cast("string"), schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})


def _widest(kind: Any) -> Any:
    """Return the type with the widest number type for every number."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(one.name, _widest(one.dataType)) for one in kind.fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_widest(kind.elementType))
    return t.DoubleType() if isinstance(kind, t.NumericType) else kind


class _Conflicts:
    """Collects types that conflict with the table's, as notes for the report."""

    def __init__(self, column: str) -> None:
        self._column = column
        self.notes: list[str] = []
        self.types = False

    def conflict(self, path: str, old: Any, new: Any) -> None:
        """See growth.Conflict."""
        if new is None:
            self.notes.append(f"{self._column}: field {path!r} differs from another by case only, and is left out")
            return
        self.types = True
        self.notes.append(
            f"{self._column}: field {path!r} is {old.simpleString()} in the table and {new.simpleString()} in some "
            "records, which are dead letters where they do not fit"
        )


def _read_schema(parsing: Parsing) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    text = parsing.read_schema().decode()
    try:
        return StructType.fromJson(json.loads(text)) if text.lstrip().startswith("{") else StructType.fromDDL(text)
    except (PySparkException, KeyError, TypeError, ValueError) as error:
        raise PipelineError(
            f"{parsing.schema} is neither Spark's DDL, such as `origin STRING, delay INT`, nor its JSON form: "
            f"{str(error).splitlines()[0]}"
        ) from error
