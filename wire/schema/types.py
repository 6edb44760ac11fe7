"""The types of Kafka's wire format, as values for the fields of a schema.

Kafka describes them in its protocol guide, under "Protocol Primitive Types".  The Python types: integers are ``int``,
``uuid`` is :class:`uuid.UUID`, ``bytes`` and ``records`` are decoded as ``memoryview`` slices of the input, and arrays
as tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

from odradek.wire.values import immutable

T = TypeVar("T")

Buffer: TypeAlias = bytes | bytearray | memoryview
"""The types that an encoder accepts for bytes; a decoder always returns a memoryview of its input."""

Records: TypeAlias = Buffer | Sequence[Buffer] | None
"""Record batches to send: one buffer, or several that are sent one after the other."""

TaggedFields: TypeAlias = tuple[tuple[int, bytes], ...]
"""Tagged fields that are not in the schema, as (tag, raw bytes) in the order received."""

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
"""Record batches that a broker receives: a view of their frame."""
records_out: WireType[Records] = WireType("records")
"""Record batches that a broker sends: views of the store, not copied."""


def as_wire_type(kind: WireType[T] | type[T]) -> WireType[T]:
    """Return ``kind``, or the wire type of a struct class."""
    if isinstance(kind, WireType):
        return kind
    return WireType(kind.__name__, struct=kind)


def array(element: WireType[T] | type[T]) -> WireType[tuple[T, ...]]:
    """Return the type of an array of ``element``, a wire type or a struct class."""
    inner = as_wire_type(element)
    # Python's type system cannot express that `element` of an array is its item type.
    return WireType(f"[]{inner.name}", element=inner)  # pyright: ignore[reportReturnType, reportArgumentType]
