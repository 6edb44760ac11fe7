"""The evolution of a table's schema: new fields are added, number types widen; other changes are conflicts."""

# ruff: noqa: ANN401 - Spark's types and columns; pyspark is imported late

from collections.abc import Callable
from typing import Any, Final

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_BIGINT_DIGITS: Final = 19
_MOST_DIGITS: Final = 38

Conflict = Callable[[str, Any, Any], None]
"""Called with a field's path, its type in the table and the conflicting type, None if the conflict is that its name
differs only by case from another's.
"""


def merged(old: Any, new: Any, conflict: Conflict, path: str = "") -> Any:
    """Return a type for the values of both `old` and `new`. If there is none, call `conflict` and return `old`.

    A struct gets the fields of both, those of `old` first. Of two names that differ only by case the first is kept.
    """
    from pyspark.sql import types as t

    if old == new or isinstance(new, t.NullType):
        return old
    if isinstance(old, t.NullType):
        return new
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        return _merged_structs(old, new, conflict, path)
    if isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        return t.ArrayType(merged(old.elementType, new.elementType, conflict, f"{path}[]"))
    if isinstance(old, t.MapType) and isinstance(new, t.MapType) and old.keyType == new.keyType:
        return t.MapType(old.keyType, merged(old.valueType, new.valueType, conflict, f"{path}{{}}"))
    wider = widened(old, new)
    if wider is None:
        conflict(path, old, new)
        return old
    return wider


def _merged_structs(old: Any, new: Any, conflict: Conflict, path: str) -> Any:
    from pyspark.sql import types as t

    fields = {field.name: field.dataType for field in old.fields}
    lowered = {name.lower(): name for name in fields}
    for field in new.fields:
        place = f"{path}.{field.name}" if path else field.name
        known = lowered.setdefault(field.name.lower(), field.name)
        if known != field.name:
            conflict(place, fields[known], None)
        elif known in fields:
            fields[known] = merged(fields[known], field.dataType, conflict, place)
        else:
            fields[known] = field.dataType
    return t.StructType([t.StructField(name, kind, nullable=True) for name, kind in fields.items()])


def widened(old: Any, new: Any) -> Any | None:
    """Return the number type for all values of both; None if there is none. A double represents large integers
    approximately.
    """
    from pyspark.sql import types as t

    names = old.simpleString(), new.simpleString()
    if all(name in _WHOLE for name in names):
        return max(old, new, key=lambda kind: _WHOLE.index(kind.simpleString()))
    if not (isinstance(old, t.NumericType) and isinstance(new, t.NumericType)):
        return None
    if any(isinstance(kind, t.FloatType | t.DoubleType) for kind in (old, new)):
        return t.DoubleType()
    return _decimal(old, new)


def _decimal(old: Any, new: Any) -> Any | None:
    from pyspark.sql import types as t

    sizes = [
        (kind.precision - kind.scale, kind.scale) if isinstance(kind, t.DecimalType) else (_BIGINT_DIGITS, 0)
        for kind in (old, new)
    ]
    whole, scale = (max(size[index] for size in sizes) for index in (0, 1))
    return t.DecimalType(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None


def grown(column: Any, old: Any, new: Any) -> Any:
    """Return a column of the type `old` converted to `new`, a type that evolved from it."""
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    if old == new:
        return column
    if isinstance(old, t.StructType) and isinstance(new, t.StructType):
        present = {field.name: field.dataType for field in old.fields}
        fields = [
            grown(column.getField(one.name), present[one.name], one.dataType).alias(one.name)
            if one.name in present
            else f.lit(None).cast(one.dataType).alias(one.name)
            for one in new.fields
        ]
        return f.when(column.isNotNull(), f.struct(*fields))
    if isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        return f.transform(column, lambda element: grown(element, old.elementType, new.elementType))
    if isinstance(old, t.MapType) and isinstance(new, t.MapType):
        return f.transform_values(column, lambda _, value: grown(value, old.valueType, new.valueType))
    return column.cast(new)
