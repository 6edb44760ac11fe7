"""The transformation of records: SQL on the view `records`, or a function of a DataFrame."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from odradek.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIEW: Final = "records"
Transformation = Callable[["DataFrame"], "DataFrame"]


def from_sql(sql: str) -> Transformation:
    """Return the transformation by a query on `records`. When applied it raises PipelineError for an invalid query."""

    def transform(records: "DataFrame") -> "DataFrame":
        from pyspark.errors import AnalysisException

        records.createOrReplaceTempView(VIEW)
        try:
            return records.sparkSession.sql(sql)  # pyright: ignore[reportUnknownMemberType]
        except AnalysisException as error:  # ParseException is one
            raise PipelineError(f"--sql: {str(error).strip().splitlines()[0]}") from error

    return transform


def from_function(name: str) -> Transformation:
    """Return the function `module:name`. Raises PipelineError if it does not exist."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise PipelineError(f"--function {name}: {error}") from error
    if not callable(found):
        raise PipelineError(f"--function {name} is no function")
    return cast("Transformation", found)


def as_records(result: "DataFrame") -> "DataFrame":
    """Return the columns key, value, timestamp_ms, headers and partition of a transformation's result.

    `value` is required, as text or bytes. Without `timestamp` records get the time at which their batch's query starts.
    A null `partition` is replaced by `Placing`. Raises PipelineError if a column is missing or of another type.
    """
    from pyspark.sql import functions as f

    types = dict(result.dtypes)
    if "value" not in types:
        raise PipelineError(f"the transformation gives no column `value`, but {', '.join(types)}")
    for name, wanted in _TYPES.items():
        if types.get(name, wanted[0]) not in wanted:
            raise PipelineError(f"column `{name}` is {types[name]}, not {' or '.join(wanted)}")
    empty = {"key": "binary", "headers": _TYPES["headers"][0], "partition": "int"}
    columns = [
        f.col(name).cast(kind).alias(name) if name in types else f.lit(None).cast(kind).alias(name)
        for name, kind in {**empty, "value": "binary"}.items()
    ]
    time = f.unix_millis("timestamp") if "timestamp" in types else f.unix_millis(f.current_timestamp())
    return result.select(*columns, time.alias("timestamp_ms"))


_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int", "bigint"),
    "timestamp": ("timestamp",),
}
