"""Error responses of every API, made from the schemas: where a response has its error codes, and for which items.

Theory of operation
-------------------
A response has error codes on one or more levels: its own, that of topics (or groups, resources), that of partitions. A
*place* is the path of array fields from the response to one of these levels, for instance `("responses",
"partition_responses")` for Produce. The items at each step of the path correspond to items of one array of the request:
that whose elements have the same identity (a name, an id, an index), or are one. So a place is enough to make the
failed items of a request (`failed`), to remove them from it (`without`), to join them with the response to the rest
(`joined`), and to replace them in a response (`replaced`).

Without a selection of topics or partitions an error has the first place, as in Kafka's own error responses; the
exceptions are `ERRORS_OF_ITEMS`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeGuard, cast
from uuid import UUID

from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import FieldSpec, Kind, Message, Struct

Place = tuple[str, ...]
"""The array fields from a response to the level of an error code; empty for the response's own."""
Names = Callable[[UUID], str | None]
"""Returns the name of the topic with an id, None if there is none."""

ERROR_FIELDS: Final = frozenset({"error_code", "partition_error_code"})
IDENTITIES: Final[Mapping[str, str]] = {
    "name": "name",
    "topic": "name",
    "topic_name": "name",
    "user": "name",
    "topic_id": "topic_id",
    "index": "partition",
    "partition": "partition",
    "partition_index": "partition",
    "partition_id": "partition",
    "group_id": "group_id",
    "member_id": "member_id",
    "group_instance_id": "group_instance_id",
    "key": "key",
    "transactional_id": "transactional_id",
    "resource_type": "resource_type",
    "resource_name": "resource_name",
}
"""The fields that identify an item, and one name for those that mean the same in requests and responses."""
TOPIC_ARRAYS: Final = frozenset(
    {"topics", "topic_data", "topic_partitions", "v3_and_below_topics", "topic_names", "transactions", "groups", "dirs"}
)
"""The arrays of requests that contain topics, or items with such an array."""
NOT_ASKED_FOR: Final = frozenset({"forgotten_topics_data"})
"""Arrays of requests of which a response says nothing."""
UNSET: Final = -1
UNKNOWN_VALUES: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        "base_offset",
        "committed_offset",
        "controller_id",
        "generation_id",
        "high_watermark",
        "leader_id",
        "low_watermark",
        "node_id",
        "num_partitions",
        "port",
        "producer_epoch",
        "producer_id",
        "replication_factor",
    ),
    UNSET,
) | {"records": (), "aborted_transactions": None}
"""The values of a failed item's other fields, as Kafka has them, where they differ from the schema's defaults."""

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors of a whole Fetch."""
ERRORS_OF_ITEMS: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose usual errors belong to items although the response has an error code, which has one special purpose."""


class Selection:
    """The topics and partitions that fail; None selects all. `name_of` gives the names of topics with ids."""

    def __init__(self, topic: str | None, partition: int | None, name_of: Names) -> None:
        self._topic = topic
        self._partition = partition
        self._name_of = name_of

    @property
    def is_everything(self) -> bool:
        """True if all items fail."""
        return self._topic is None and self._partition is None

    @property
    def has_partition(self) -> bool:
        """True if a partition is selected."""
        return self._partition is not None

    def takes(self, identity: Mapping[str, Any]) -> bool:
        """True if the item fails whose identity, with those of the items around it, is this."""
        partition = identity.get("partition")
        if self._partition is not None and partition is not None and partition != self._partition:
            return False
        return self._topic is None or self._topic == self.name(identity)

    def name(self, identity: Mapping[str, Any]) -> str | None:
        """The name of the topic, or of what else the item is; None if it has none."""
        name = identity.get("name")
        if not name and isinstance(identity.get("topic_id"), UUID):
            return self._name_of(identity["topic_id"])
        return name


def response_type(api: ApiKey) -> type[Message]:
    """The class of an API's responses."""
    return _message_type(api, "response")


def request_type(api: ApiKey) -> type[Message]:
    """The class of an API's requests."""
    return _message_type(api, "request")


@cache
def _message_type(api: ApiKey, kind: Kind) -> type[Message]:
    module = import_module(f"odradek.wire.messages.{api.name.lower()}")
    return next(each for each in vars(module).values() if _is_message(each, api, kind))


def _is_message(each: object, api: ApiKey, kind: Kind) -> TypeGuard[type[Message]]:
    if not isinstance(each, type) or not issubclass(each, Message) or each is Message:
        return False
    info = each.__message__
    return info.kind == kind and info.api_key == api


@cache
def places(response: type[Struct], version: int) -> tuple[Place, ...]:
    """All places of error codes, the response's own first, then by depth."""
    return tuple(sorted(_places(response, version), key=len))


def _places(struct: type[Struct], version: int) -> Iterator[Place]:
    for spec in _fields(struct, version):
        if spec.name in ERROR_FIELDS:
            yield ()
        elif (element := _element(spec)) is not None:
            for place in _places(element, version):
                yield (spec.name, *place)


def place_of(api: ApiKey, version: int, error: ErrorCode, selection: Selection) -> Place | None:
    """Where the response has the error; None if no error code of the response can be for the selection alone."""
    response = response_type(api)
    found = places(response, version)
    if not selection.is_everything:
        of_topics = [each for each in found if _is_of_topics(response, each)]
        return of_topics[-1 if selection.has_partition else 0] if of_topics else None
    if api in ERRORS_OF_ITEMS and error not in SESSION_ERRORS:
        return next(each for each in found if each)
    return found[0]


def _is_of_topics(response: type[Struct], place: Place) -> bool:
    """True if an item of the place is a topic, or of one."""
    struct = response
    for name in place:
        struct = _struct_at(struct, name)
        if {IDENTITIES.get(each.name) for each in struct.__fields__} & {"name", "topic_id"}:
            return True
    return False


# Items of requests


@cache
def names_topics(request: type[Struct]) -> bool:
    """True if requests of this type name topics."""
    for spec in request.__fields__:
        element = _element(spec)
        if spec.name == "topic_names":
            return True
        if spec.name in TOPIC_ARRAYS and element is not None:
            own = {IDENTITIES.get(each.name) for each in element.__fields__}
            if own & {"name", "topic_id"} or names_topics(element):
                return True
    return False


def named(request: Struct, version: int) -> Iterator[dict[str, Any]]:
    """The identities of all topics, or partitions of topics, that a request names."""
    if names_topics(type(request)):
        yield from _named(request, version, {})


def _named(struct: Struct, version: int, around: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for spec in _fields(type(struct), version):
        if spec.name not in TOPIC_ARRAYS:
            continue
        for item in getattr(struct, spec.name) or ():
            identity = {**around, **_identity(item, version)}
            inner = list(_partitions(item, version, identity))
            yield from inner or (identity,)


def _partitions(item: object, version: int, identity: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if not isinstance(item, Struct):
        return
    yield from _named(item, version, identity)
    for spec in _fields(type(item), version):
        if spec.name.startswith("partition") and spec.type.element is not None:
            for part in getattr(item, spec.name) or ():
                yield {**identity, **_identity(part, version)}


def failed(
    api: ApiKey, place: Place, request: Message, version: int, error: ErrorCode, selection: Selection
) -> Message | None:
    """The response with only the failed items; None if there are none."""
    found = _failed(response_type(api), place, request, version, error, selection, {})
    return cast("Message | None", found)


def _failed(
    cls: type[Struct],
    place: Place,
    source: object,
    version: int,
    error: ErrorCode,
    selection: Selection,
    around: Mapping[str, Any],
) -> Struct | None:
    identity = {**around, **_identity(source, version)}
    if not place:
        return _with_error(cls, source, version, error) if selection.takes(identity) else None
    element = _struct_at(cls, place[0])
    items = [
        found
        for item in _corresponding(element, source, version)
        if (found := _failed(element, place[1:], item, version, error, selection, identity)) is not None
    ]
    values: dict[str, Any] = {**_own_identity(cls, source, version), place[0]: tuple(items)}
    return cls(**values) if items else None


def without(api: ApiKey, place: Place, request: Message, version: int, selection: Selection) -> Message | None:
    """The request without the items that fail; None if nothing is left."""
    return cast("Message | None", _without(response_type(api), place, request, version, selection, {}))


def _without(
    cls: type[Struct],
    place: Place,
    source: object,
    version: int,
    selection: Selection,
    around: Mapping[str, Any],
) -> object | None:
    identity = {**around, **_identity(source, version)}
    if not place:
        return None if selection.takes(identity) else source
    assert isinstance(source, Struct), "a path has a field for each level"
    element = _struct_at(cls, place[0])
    left: dict[str, Any] = {}
    deeper = _between(element, source, version)
    for name in _corresponding_fields(element, source, version) or deeper:
        to = (cls, place) if deeper else (element, place[1:])
        items = [_without(*to, item, version, selection, identity) for item in getattr(source, name)]
        left[name] = tuple([each for each in items if each is not None])
    return replace(cast("Any", source), **left) if any(left.values()) else None


def _corresponding(element: type[Struct], source: object, version: int) -> list[object]:
    """The items of the request that the items of a response's array are about."""
    if not isinstance(source, Struct):
        return []
    around = [item for name in _between(element, source, version) for item in getattr(source, name)] or [source]
    return [
        item
        for each in around
        for name in _corresponding_fields(element, each, version)
        for item in getattr(each, name)
    ]


def _between(element: type[Struct], source: Struct, version: int) -> list[str]:
    """The array of a request that is around the corresponding one, as the directories of AlterReplicaLogDirs are."""
    if _corresponding_fields(element, source, version):
        return []
    arrays = [each for each in _fields(type(source), version) if _element(each) is not None]
    return [each.name for each in arrays[:1] if getattr(source, each.name)]


def _corresponding_fields(element: type[Struct], source: Struct, version: int) -> list[str]:
    """The names of the arrays of a request whose items correspond to the elements of an array of the response."""
    arrays = [
        each
        for each in _fields(type(source), version)
        if each.type.element is not None and each.name not in NOT_ASKED_FOR
    ]
    given = [each for each in arrays if getattr(source, each.name)]
    wanted = _identities(element, version)
    same = [each.name for each in given if _matches(each, wanted, version)]
    # Items without any identity, such as those of CreateAcls, correspond by their position.
    return same or ([given[0].name] if len(arrays) == 1 and given and not wanted else [])


def _matches(spec: FieldSpec, wanted: frozenset[str], version: int) -> bool:
    element = _element(spec)
    if element is not None:
        return bool(_identities(element, version) & wanted)
    inner = spec.type.element
    is_number = inner is not None and inner.code is not None
    return "partition" in wanted if is_number else bool(wanted & SCALAR_NAMES)


SCALAR_NAMES: Final = frozenset({"name", "group_id", "key", "transactional_id"})
"""The identities of items that are no more than a text."""


# Responses


def joined(place: Place, real: Message, errors: Message, version: int) -> Message:
    """The response to the rest of a request, and the failed items."""
    return cast("Message", _joined(place, real, errors, version))


def _joined(place: Place, real: Struct, errors: Struct, version: int) -> Struct:
    name, deeper = place[0], place[1:]
    items: list[Struct] = list(getattr(real, name) or ())
    for error in getattr(errors, name):
        at = next((i for i, each in enumerate(items) if _identity(each, version) == _identity(error, version)), None)
        if at is None or not deeper:
            items.append(error)
        else:
            items[at] = _joined(deeper, items[at], error, version)
    return replace(cast("Any", real), **{name: tuple(items)})


def replaced(place: Place, response: Message, version: int, error: ErrorCode | None, selection: Selection) -> Message:
    """The response with its selected items failed, or without them if there is no `error`."""
    return cast("Message", _replaced(place, response, version, error, selection, None))


def _replaced(
    place: Place,
    response: Struct,
    version: int,
    error: ErrorCode | None,
    selection: Selection,
    around: Mapping[str, Any] | None,
) -> Struct | None:
    identity = {**(around or {}), **_identity(response, version)}
    if not place:
        if not selection.takes(identity):
            return response
        return None if error is None else _with_error(type(response), response, version, error)
    before: tuple[Struct, ...] = getattr(response, place[0]) or ()
    items = [
        found
        for item in before
        if (found := _replaced(place[1:], item, version, error, selection, identity)) is not None
    ]
    if before and not items and around is not None:
        return None
    return replace(cast("Any", response), **{place[0]: tuple(items)})


def with_error(api: ApiKey, request: Message, version: int, error: ErrorCode) -> Message:
    """The response to a request that fails as a whole."""
    return cast("Message", _with_error(response_type(api), request, version, error))


def _with_error(cls: type[Struct], source: object, version: int, error: ErrorCode) -> Struct:
    """An item that failed: its identity, the error, and nothing else."""
    values = _own_identity(cls, source, version)
    for spec in _fields(cls, version):
        if spec.name in ERROR_FIELDS:
            values[spec.name] = error
        elif spec.name == "error_message":
            values[spec.name] = f"{error.name} (scripted fault)"
        elif spec.name == "entity":  # the one identity that is a struct
            values[spec.name] = _converted(_element(spec), getattr(source, spec.name, ()))
        elif spec.name in UNKNOWN_VALUES and spec.name not in values:
            values[spec.name] = UNKNOWN_VALUES[spec.name]
    return cls(**values)


def _converted(cls: type[Struct] | None, items: tuple[Struct, ...]) -> tuple[Struct, ...]:
    """The items as another class with the same fields."""
    assert cls is not None
    return tuple([cls(**{spec.name: getattr(item, spec.name) for spec in cls.__fields__}) for item in items])


# Fields and identities


def _fields(struct: type[Struct], version: int) -> Iterator[FieldSpec]:
    return (spec for spec in struct.__fields__ if version in spec.versions)


def _element(spec: FieldSpec) -> type[Struct] | None:
    """The class of an array's items; None for any other field."""
    inner = spec.type.element
    return None if inner is None else cast("type[Struct] | None", inner.struct)


@cache
def _struct_at(struct: type[Struct], name: str) -> type[Struct]:
    spec = next(each for each in struct.__fields__ if each.name == name)
    element = _element(spec)
    assert element is not None, "a place is a path of arrays"
    return element


@cache
def _identities(struct: type[Struct], version: int) -> frozenset[str]:
    return frozenset({IDENTITIES[each.name] for each in _fields(struct, version) if each.name in IDENTITIES})


def _identity(item: object, version: int) -> dict[str, Any]:
    """The identity of an item of a request or response; of an item that is a text or number, that."""
    if isinstance(item, str):
        return dict.fromkeys(SCALAR_NAMES, item)
    if isinstance(item, int):
        return {"partition": item}
    assert isinstance(item, Struct)
    return {
        IDENTITIES[each.name]: getattr(item, each.name)
        for each in _fields(type(item), version)
        if each.name in IDENTITIES
    }


def _own_identity(cls: type[Struct], source: object, version: int) -> dict[str, Any]:
    """The fields that identify an item of the response, from the item of the request."""
    known = _identity(source, version)
    return {
        each.name: known[IDENTITIES[each.name]] for each in _fields(cls, version) if IDENTITIES.get(each.name) in known
    }
