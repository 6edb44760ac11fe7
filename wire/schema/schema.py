"""The declarative schema: the fields of messages, and the versions that have them.

A message is a class that lists its fields as Kafka's message definitions do::

    class TopicProduceData(Struct):
        name: str = field(types.string, versions="0-12", default="")
        partition_data: tuple[PartitionProduceData, ...] = field(types.array(PartitionProduceData), default=())

    class ProduceRequest(Message, kind="request", api_key=0, versions="3-13", flexible="9+"):
        acks: int = field(types.int16, default=0)
        topic_data: tuple[TopicProduceData, ...] = field(types.array(TopicProduceData), default=())

Such a class behaves as a frozen, slotted, keyword-only dataclass (``dataclasses.replace`` and
``fields`` work) that serves every version; :mod:`odradek.wire.schema.codec` generates the code that reads and writes
it. It is not a standard dataclass, because hundreds of them would add half a second to the start; a class made here
costs a few microseconds until it is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar, cast, dataclass_transform

from odradek.wire.schema.types import TaggedFields, WireType, as_wire_type
from odradek.wire.values import immutable

T = TypeVar("T")
D = TypeVar("D")

Kind = Literal["request", "response", "data", "key", "value", "metadata", "header"]
"""The kind of a message: an API's request or response, or a part of a stored record."""

FOREVER = 32767
"""The last version of an open range such as "9+"."""


@immutable
class Versions:
    """An inclusive range of versions; empty when ``first`` is above ``last``."""

    first: int
    last: int

    @staticmethod
    @cache
    def parse(text: str) -> Versions:
        """Read Kafka's notation: "3", "0-12", "9+" or "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return Versions(int(text[:-1]), FOREVER)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSIONS = Versions(0, -1)


@immutable
class FieldSpec:
    """One field: its type, the versions that have it, and how each version writes it.

    ``nullable`` are the versions in which null may be sent, ``tagged`` those in which the field is
    a tagged field numbered ``tag`` (KIP-482).  A field that is not ``ignorable`` may not be given a
    value other than its default when a version without it is encoded.  ``flexible`` overrides the
    message's flexible versions (only the request header's client id does).
    """

    name: str
    type: WireType[Any]
    default: Any
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    ignorable: bool
    flexible: Versions | None

    def named(self, name: str) -> FieldSpec:
        """Return a copy with this name. Faster than ``dataclasses.replace``, since there are thousands of fields."""
        kind, default, versions, nullable = self.type, self.default, self.versions, self.nullable
        return FieldSpec(name, kind, default, versions, nullable, self.tagged, self.tag, self.ignorable, self.flexible)


@immutable
class MessageInfo:
    """The properties of a message that a plain struct does not have: its kind, number, versions and flexible versions.

    ``api_key`` is the API key, or the record type of a stored record, or None for plain data.
    ``unstable`` marks a latest version that Kafka does not yet offer to clients.
    """

    kind: Kind
    api_key: int | None
    versions: Versions
    flexible: Versions
    unstable: bool


def field(
    kind: WireType[T] | type[T],
    *,
    default: D,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
    flexible: str | None = None,
) -> T | D:
    """Declare a field of a :class:`Struct`; see :class:`FieldSpec` for the parameters.

    A field with a ``tag`` is a tagged field in all its versions.
    """
    present = Versions.parse(versions)
    spec = FieldSpec(
        name="",
        type=as_wire_type(kind),
        default=default,
        versions=present,
        nullable=Versions.parse(nullable),
        tagged=NO_VERSIONS if tag is None else present,
        tag=tag,
        ignorable=ignorable,
        flexible=None if flexible is None else Versions.parse(flexible),
    )
    return cast("T | D", spec)


class _LazyDataclassFields:
    """Gives ``__dataclass_fields__`` on access, so that the dataclasses module works on structs."""

    def __get__(self, instance: object, owner: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
        made = owner.__dict__.get("_dataclass_fields")
        if made is None:
            made = _dataclass_fields_of(owner)
            type.__setattr__(owner, "_dataclass_fields", made)
        return cast("dict[str, dataclasses.Field[Any]]", made)


def _dataclass_fields_of(owner: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
    listed = [(name, Any, dataclasses.field(default=default)) for name, default in _parameters(owner)]
    own = {"__doc__": owner.__doc__ or owner.__name__}  # without it, dataclasses would compute a signature
    made = dataclasses.make_dataclass(
        owner.__name__, listed, namespace=own, init=False, repr=False, eq=False, kw_only=True
    )
    return cast("dict[str, dataclasses.Field[Any]]", vars(made)["__dataclass_fields__"])


def _parameters(owner: type[Struct]) -> list[tuple[str, Any]]:
    listed: list[tuple[str, Any]] = [(spec.name, spec.default) for spec in owner.__fields__]
    return [*listed, ("unknown_tagged_fields", ())]


def _construct(cls: type[Struct], **values: object) -> Struct:
    """The initial constructor: generates the real one, puts it in its own place, and calls it."""
    constructor = _make_constructor(cls)
    type.__setattr__(cls, "__new__", staticmethod(constructor))
    return constructor(cls, **values)


def _make_constructor(cls: type[Struct]) -> Callable[..., Struct]:
    parameters = _parameters(cls)
    signature = ", ".join(f"{name}=_default_{name}" for name, _ in parameters)
    lines = [f"def __new__(cls, *, {signature}):", " self = _builder()"]
    lines += [f" self.{name} = {name}" for name, _ in parameters]
    lines += [" self.__class__ = cls", " return self"]
    namespace: dict[str, Any] = {f"_default_{name}": default for name, default in parameters}
    namespace["_builder"] = cls.__builder__
    exec("\n".join(lines), namespace)  # noqa: S102 - the source is made from our own schema
    return namespace["__new__"]


def _refuse_set(self: Struct, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Struct, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class StructMeta(type):
    """Creates from a class body of fields a slotted, frozen class and its builder class.

    The builder (``__builder__``) has the same slots and allows assignment. Decoders and constructors set the attributes
    of a builder and then change its ``__class__``, which is three times as fast as a frozen dataclass.
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        kind: Kind | None = None,
        api_key: int | None = None,
        versions: str = "none",
        flexible: str = "none",
        unstable: bool = False,
    ) -> StructMeta:
        """Create the class; the keywords are given for messages, not for nested structs."""
        if "__slots__" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        specs = {key: value for key, value in namespace.items() if isinstance(value, FieldSpec)}
        rest = {key: value for key, value in namespace.items() if key not in specs}
        slots = tuple(specs)
        builder = super().__new__(mcs, f"{name}Builder", bases, {"__slots__": slots})
        rest |= {"__slots__": slots, "__builder__": builder, "__new__": _construct}
        rest |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        rest["__fields__"] = tuple([spec.named(key) for key, spec in specs.items()])
        if kind is not None:
            ranges = Versions.parse(versions), Versions.parse(flexible)
            rest["__message__"] = MessageInfo(kind, api_key, *ranges, unstable)
        return super().__new__(mcs, name, bases, rest)


class Struct(metaclass=StructMeta):
    """A group of fields: immutable, compared by value, built by keyword.

    ``unknown_tagged_fields`` are the tagged fields of newer versions that a peer sent, kept so that they can be passed
    on.
    """

    __slots__ = ("unknown_tagged_fields",)
    __fields__: ClassVar[tuple[FieldSpec, ...]] = ()
    __builder__: ClassVar[type[Struct]]
    __dataclass_fields__: ClassVar[_LazyDataclassFields] = _LazyDataclassFields()  # pyright: ignore[reportIncompatibleVariableOverride]

    if TYPE_CHECKING:  # a slot cannot have a default value
        unknown_tagged_fields: TaggedFields = ()

    def __eq__(self, other: object) -> bool:
        if other is self:  # frequent: encoders compare values with the field's default
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__slots__)
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """A struct that is sent or stored on its own; ``__message__`` has its kind, number and versions."""

    __slots__ = ()
    __message__: ClassVar[MessageInfo]


def _values(struct: object) -> tuple[Any, ...]:
    names: tuple[str, ...] = getattr(type(struct), "__slots__")  # noqa: B009 - pyright knows no such attribute
    return (*(getattr(struct, name) for name in names), getattr(struct, "unknown_tagged_fields", ()))
