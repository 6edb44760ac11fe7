"""The types that Kafka's wire format knows, as values that the schema's fields name.

Kafka describes them in its protocol guide, under "Protocol Primitive Types".  Each says how a Python
value looks: integers are ``int``, ``uuid`` is :class:`uuid.UUID`, ``bytes`` and ``records`` come out
of a decoder as ``memoryview`` slices of its input, and arrays as tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

from odradek.wire.values import immutable

T = TypeVar("T")

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What an encoder takes for bytes; a decoder always gives a memoryview of its input."""

Records: TypeAlias = Buffer | Sequence[Buffer] | None
"""Record batches to send: one buffer, or many that follow each other on the wire."""

TaggedFields: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that the schema does not know, as (tag, raw bytes) in the order received."""

ZERO_UUID = UUID(int=0)
"""Kafka's "no id"."""


@immutable
class WireType(Generic[T]):
    """A wire type whose Python values are ``T``.

    ``name`` is Kafka's.  ``code`` is the :mod:`struct` code of a fixed-width type, else None.
    ``element`` is an array's element type, ``struct`` the class of a struct.
    """

    name: str
    code: str | None = None
    element: WireType[T] | None = None
    struct: type[T] | None = None


boolean: WireType[bool] = WireType("bool", "?")
int8: WireType[int] = WireType("int8", "b")
int16: WireType[int] = WireType("int16", "h")
uint16: WireType[int] = WireType("uint16", "H")
int32: WireType[int] = WireType("int32", "i")
int64: WireType[int] = WireType("int64", "q")
float64: WireType[float] = WireType("float64", "d")
uuid: WireType[UUID] = WireType("uuid", "16s")
string: WireType[str] = WireType("string")
data: WireType[Buffer] = WireType("bytes")
records_in: WireType[memoryview] = WireType("records")
"""Record batches that a broker receives: a view of the frame they came in."""
records_out: WireType[Records] = WireType("records")
"""Record batches that a broker sends: views of the store, passed on without a copy."""


def as_wire_type(kind: WireType[T] | type[T]) -> WireType[T]:
    """``kind`` itself, or the wire type of a struct class."""
    if isinstance(kind, WireType):
        return kind
    return WireType(kind.__name__, struct=kind)


def array(element: WireType[T] | type[T]) -> WireType[tuple[T, ...]]:
    """An array of ``element``, a wire type or a struct class."""
    inner = as_wire_type(element)
    # Python's type system has no way to say that `element` of an array is its item type.
    return WireType(f"[]{inner.name}", element=inner)  # pyright: ignore[reportReturnType, reportArgumentType]
