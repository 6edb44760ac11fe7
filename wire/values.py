"""Value classes with slots, as `@dataclass(frozen=True, slots=True)` and `@dataclass(slots=True)` make them, but
faster.

A dataclass compiles half a dozen methods when its class is created, which takes longer than importing most modules, and
a broker needs dozens of such classes before it can serve. Here the constructor is compiled once a class has more than a
few objects, and all other methods are shared. Meant for modules that are imported at every start; elsewhere use a
dataclass.

`dataclasses.replace` and `fields` work, and so do `field`'s `default`, `default_factory` and `repr`. Value classes do
not inherit from each other.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeVar, cast, dataclass_transform

T = TypeVar("T")

COMPILED_AFTER: Final = 10
"""The first objects of a class are made by a general constructor; compiling a special one takes as long as making 20
objects.
"""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def immutable(cls: type[T]) -> type[T]:
    """Make the annotated names of a class body the slots of an immutable class, compared and hashed by them."""
    return _made(cls, _SHARED | _FROZEN)


@dataclass_transform(field_specifiers=(dataclasses.field,))
def mutable(cls: type[T]) -> type[T]:
    """As `immutable`, for a class whose objects may change; they have no hash."""
    return _made(cls, _SHARED | {"__hash__": None})


def _made(cls: type[T], methods: dict[str, Any]) -> type[T]:
    names = tuple(inspect.get_annotations(cls))
    kept = {name: each for name, each in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    own = {
        "__qualname__": cls.__qualname__,
        "__slots__": names,
        "__match_args__": names,
        "__defaults__": {name: vars(cls)[name] for name in names if name in vars(cls)},
        "__values__": attrgetter(*names),
        "__made__": 0,
    }
    return cast("type[T]", type(cls)(cls.__name__, cls.__bases__, methods | kept | own))


class _LazyFields:
    """Creates `__dataclass_fields__` on first access, so that the dataclasses module works on values."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Field[Any]]:  # noqa: ANN401
        listed = [(name, Any, owner.__defaults__.get(name, MISSING)) for name in owner.__slots__]
        fields = [(name, kind, dataclasses.field() if given is MISSING else given) for name, kind, given in listed]
        own = {"__doc__": owner.__doc__ or owner.__name__}  # without it, dataclasses would compute a signature
        made = dataclasses.make_dataclass(owner.__name__, fields, namespace=own, init=False, repr=False, eq=False)
        owner.__dataclass_fields__ = found = cast("Any", made).__dataclass_fields__
        return found


def _init(self: Any, *args: object, **named: object) -> None:  # noqa: ANN401
    """The general constructor for a class's first objects; the next object compiles the constructor for all others."""
    cls: Any = self.__class__
    cls.__made__ += 1
    values = dict(zip(cls.__slots__, args, strict=False)) | named
    is_refused = len(values) < len(args) + len(named) or not values.keys() <= set(cls.__slots__)
    for name in cls.__slots__:
        if name not in values:
            default, factory = _default(cls.__defaults__.get(name, MISSING))
            values[name] = default if factory is MISSING else factory()
            is_refused |= values[name] is MISSING
    if is_refused or cls.__made__ > COMPILED_AFTER:
        cls.__init__ = _make_init(cls)
        cls.__init__(self, *args, **named)  # for wrong arguments it raises the TypeError
        return
    for name, value in values.items():
        object.__setattr__(self, name, value)


def _make_init(cls: Any) -> Callable[..., None]:  # noqa: ANN401
    parameters: list[str] = []
    lines: list[str] = []
    names: dict[str, Any] = {"MISSING": MISSING}
    is_frozen = cls.__setattr__ is _refuse_set
    for name in cls.__slots__:
        default, factory = _default(cls.__defaults__.get(name, MISSING))
        names |= {f"set_{name}": cls.__dict__[name].__set__, f"default_{name}": default, f"make_{name}": factory}
        given = f"make_{name}() if {name} is MISSING else {name}" if factory is not MISSING else name
        parameters.append(name if default is factory is MISSING else f"{name}=default_{name}")
        lines.append(f" set_{name}(self, {given})" if is_frozen else f" self.{name} = {given}")
    exec("\n".join([f"def __init__(self, {', '.join(parameters)}):", *lines]), names)  # noqa: S102 - from our own classes
    return names["__init__"]


def _default(given: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the default and the default factory of a field, MISSING for what it does not have."""
    if given.__class__ is not Field:
        return given, MISSING
    factory = given.default_factory
    return given.default, getattr(factory, "__origin__", factory)  # list[T]() costs several times what list() does


def _eq(self: Any, other: object) -> bool:  # noqa: ANN401
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__values__(self) == self.__values__(other)


def _hash(self: Any) -> int:  # noqa: ANN401
    return hash(self.__values__(self))


def _repr(self: Any) -> str:  # noqa: ANN401
    shown = [name for name in self.__slots__ if getattr(self.__defaults__.get(name), "repr", True)]
    return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _refuse_set(self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduce(self: Any) -> tuple[object, ...]:  # noqa: ANN401
    """`__reduce__` for copies and pickles: the default one would assign attributes, which frozen values refuse."""
    return self.__class__, tuple([getattr(self, name) for name in self.__slots__])


_SHARED: dict[str, Any] = {
    "__init__": _init,
    "__eq__": _eq,
    "__repr__": _repr,
    "__reduce__": _reduce,
    "__dataclass_fields__": _LazyFields(),
}
_FROZEN: dict[str, Any] = {"__hash__": _hash, "__setattr__": _refuse_set, "__delattr__": _refuse_delete}
