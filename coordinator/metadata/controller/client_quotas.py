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
_SMALLEST_FRACTION: Final = 1e-6


class MatchType(IntEnum):
    """How a filter of DescribeClientQuotas matches names, numbered as in the request."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


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


def _changes(
    image: MetadataImage, entity: QuotaEntity, entries: list[alter.AlterClientQuotasRequestEntryData]
) -> list[Message]:
    (entry, *again) = entries
    keys = [operation.key for operation in entry.ops]
    if again:
        raise _invalid("The entity is named more than once.")
    if len(set(keys)) < len(keys):
        raise _invalid("A quota is named more than once.")
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
        raise _invalid("A quota needs an entity.")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"There are no quotas for entities of type {kind!r}.")
        if name == "":
            raise _invalid(f"The name of a {kind} is empty.")
    if IP not in entity:
        return _CLIENT_QUOTAS
    if len(entity) > 1:
        raise _invalid("An address cannot be combined with a user or a client id.")
    if not _is_address(entity[IP]):
        raise _invalid(f"{entity[IP]} is not an IP address.")
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
        raise _invalid(f"There is no quota {key} for this entity.")
    if not value > 0:  # also for NaN
        raise _invalid(f"{key} must be above 0.")
    if value > largest:
        raise _invalid(f"{key} must not be above {largest}.")
    if largest != inf and value % 1 > _SMALLEST_FRACTION:
        raise _invalid(f"{key} must be a whole number.")


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
            raise _invalid("The entity type is empty.")
        if kind in wanted:
            raise _invalid(f"The entity type {kind} is named more than once.")
        if kind not in (USER, CLIENT_ID, IP):
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas for entities of type {kind!r}.")
        if component.match_type not in tuple(MatchType):
            raise _invalid(f"There is no match type {component.match_type}.")
        if (component.match is not None) != (component.match_type == MatchType.EXACT):
            raise _invalid("A name is given where none is wanted, or missing where one is.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise _invalid("An address cannot be combined with a user or a client id.")
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
