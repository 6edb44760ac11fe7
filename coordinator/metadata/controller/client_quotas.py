"""Client quotas (KIP-546): limits on produce, fetch, request and connection rates. Stored, not enforced.

A quota belongs to an entity: a user, a client id, both together, or an IP address; each by name or as the default of
its type. The allowed quota names depend on the type of entity.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from ipaddress import ip_address
from math import inf
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.image.image import MetadataImage, QuotaEntity
from odradek.coordinator.metadata.image.records import quota_record
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_client_quotas as alter
from odradek.wire.messages import describe_client_quotas as describe
from odradek.wire.schema.schema import Message

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

MAX_CHANGES: Final = 10_000
"""The maximum number of records that one request may write, as in Kafka."""

_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
_CLIENT_QUOTAS: Final[Mapping[str, float]] = {
    "producer_byte_rate": _MAX_LONG,
    "consumer_byte_rate": _MAX_LONG,
    "request_percentage": inf,
    "controller_mutation_rate": inf,
}
_ADDRESS_QUOTAS: Final[Mapping[str, float]] = {"connection_creation_rate": _MAX_INT}
"""The largest value of each quota; a quota without a maximum may be a fraction."""
_TYPES: Final[Mapping[float, str]] = {_MAX_INT: "an INT", _MAX_LONG: "a LONG"}
_SMALLEST_FRACTION: Final = 1e-6


class MatchType(IntEnum):
    """How a filter of DescribeClientQuotas matches names, numbered as in the request."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


_MISMATCHES: Final = {
    MatchType.EXACT: "Request specified MATCH_TYPE_EXACT, but set match string to null.",
    MatchType.DEFAULT: "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
    MatchType.SPECIFIED: "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
}
"""Kafka's words for a name that is given where none is wanted, or missing where one is. Tools look for its words."""

# Changes


def alter_client_quotas(
    context: DecisionContext, request: alter.AlterClientQuotasRequest
) -> tuple[list[Message], alter.AlterClientQuotasResponse]:
    """Decide on each entity independently; an entity that is named twice is not changed.

    Nothing is written for validate_only.
    """
    asked: dict[QuotaEntity, list[alter.AlterClientQuotasRequestEntryData]] = {}
    for entry in request.entries:
        names = {part.entity_type: part.entity_name for part in entry.entity}
        asked.setdefault(tuple(sorted(names.items())), []).append(entry)
    records: list[Message] = []
    errors: dict[QuotaEntity, RefusedError | None] = dict.fromkeys(asked)
    for entity, entries in asked.items():
        try:
            records += _changes(context.image, entity, entries)
        except RefusedError as refused:
            errors[entity] = refused
    if len(records) > MAX_CHANGES:
        errors = dict.fromkeys(asked, RefusedError(ErrorCode.POLICY_VIOLATION, f"At most {MAX_CHANGES} at a time."))
        records.clear()
    answers = tuple(_answer(entity, error) for entity, error in errors.items())
    return [] if request.validate_only else records, alter.AlterClientQuotasResponse(entries=answers)


def _answer(entity: QuotaEntity, error: RefusedError | None) -> alter.AlterClientQuotasResponseEntryData:
    return alter.AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=tuple(alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
    )


def _in_words(entity: QuotaEntity) -> str:
    names = ", ".join([f"{kind}={'null' if name is None else name}" for kind, name in entity])
    return f"ClientQuotaEntity(entries={{{names}}})"


def _changes(
    image: MetadataImage, entity: QuotaEntity, entries: list[alter.AlterClientQuotasRequestEntryData]
) -> list[Message]:
    (entry, *again) = entries
    keys = [operation.key for operation in entry.ops]
    if again:
        raise _invalid(f"Ignoring duplicate entity {_in_words(entity)}")
    if len(set(keys)) < len(keys):  # in Kafka also the error of an entity that is named again
        raise _invalid(f"Ignoring duplicate entity {_in_words(entity)}")
    allowed = _quotas_of(dict(entity))
    before = image.quotas.get(entity, {})
    records: list[Message] = []
    for operation in entry.ops:
        if operation.remove:
            if operation.key in before:
                records.append(quota_record(entity, operation.key, None))
            continue
        _check_value(allowed, operation.key, operation.value)
        if before.get(operation.key) != operation.value:
            records.append(quota_record(entity, operation.key, operation.value))
    return records


def _quotas_of(entity: Mapping[str, str | None]) -> Mapping[str, float]:
    """Returns the quotas that such an entity can have, with their largest values. Raises RefusedError."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in entity:
        return _CLIENT_QUOTAS
    if len(entity) > 1:
        raise _invalid(  # the missing space is Kafka's
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    if not _is_address(entity[IP]):
        raise _invalid(f"{entity[IP]} is not a valid IP or resolvable host.")
    return _ADDRESS_QUOTAS


def _is_address(text: str | None) -> bool:
    if text is None:
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(allowed: Mapping[str, float], key: str, value: float) -> None:
    largest = allowed.get(key)
    if largest is None:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:  # also for NaN
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {_TYPES[largest]}.")
    if largest != inf and value % 1 > _SMALLEST_FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")


# Descriptions


def describe_client_quotas(
    image: MetadataImage, request: describe.DescribeClientQuotasRequest
) -> describe.DescribeClientQuotasResponse:
    """Returns the quotas of entities that match every component of the filter; if strict, without other types."""
    try:
        wanted = _filter(request.components)
    except RefusedError as refused:
        return describe.DescribeClientQuotasResponse(
            error_code=refused.code, error_message=refused.message, entries=None
        )
    found = [
        _described(entity, quotas)
        for entity, quotas in image.quotas.items()
        if _matches(dict(entity), wanted, strict=request.strict)
    ]
    return describe.DescribeClientQuotasResponse(error_message=None, entries=tuple(found))


def _filter(components: Iterable[describe.ComponentData]) -> dict[str, describe.ComponentData]:
    wanted: dict[str, describe.ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type not in tuple(MatchType):
            raise _invalid(f"Unknown match type {component.match_type}")
        if (component.match is not None) != (component.match_type == MatchType.EXACT):
            raise _invalid(_MISMATCHES[MatchType(component.match_type)])
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return wanted


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, describe.ComponentData], *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(
        kind in entity and (component.match_type == MatchType.SPECIFIED or entity[kind] == component.match)
        for kind, component in wanted.items()
    )


def _described(entity: QuotaEntity, quotas: Mapping[str, float]) -> describe.EntryData:
    return describe.EntryData(
        entity=tuple(describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        values=tuple(describe.ValueData(key=key, value=value) for key, value in quotas.items()),
    )


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
