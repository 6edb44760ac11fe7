"""The operations of IncrementalAlterConfigs (KIP-339) on the text of one config."""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from odradek.coordinator.configs.definition import Definition, ResourceType
from odradek.coordinator.configs.errors import ConfigRefusedError
from odradek.coordinator.configs.tables import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, is_list
from odradek.wire.schema.runtime import MAX_STRING_BYTES


class AlterOperation(IntEnum):
    """The operations, numbered as in the request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TABLES: Mapping[ResourceType, Mapping[str, Definition]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: BROKER_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
}


def apply_operation(
    resource: ResourceType, name: str, operation: AlterOperation, operand: str | None, current: str | None
) -> str | None:
    """Returns the text after the operation; None deletes it. A list that was not set starts from its default.

    Raises ConfigRefusedError for APPEND and SUBTRACT on a config that is not a list, and for a text that is too long.
    """
    if operation is AlterOperation.DELETE:
        return None
    assert operand is not None, "the request was checked"
    text = operand if operation is AlterOperation.SET else _changed_list(resource, name, operation, operand, current)
    if len(text.encode()) > MAX_STRING_BYTES:
        raise ConfigRefusedError(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{MAX_STRING_BYTES} bytes."
        )
    return text


def _changed_list(
    resource: ResourceType, name: str, operation: AlterOperation, operand: str, current: str | None
) -> str:
    table = _TABLES.get(resource, {})
    if not is_list(table, name):
        raise _not_a_list(resource, name, operation)
    before = table[name].default if current is None else current
    parts = [part for part in (before or "").split(",") if part]
    given = operand.split(",")
    return ",".join(_appended(parts, given) if operation is AlterOperation.APPEND else _subtracted(parts, given))


def _not_a_list(resource: ResourceType, name: str, operation: AlterOperation) -> ConfigRefusedError:
    if resource is ResourceType.BROKER:
        return ConfigRefusedError(f"Config value {operation.name.lower()} is not allowed for config key: {name}")
    return ConfigRefusedError(f"Can't {operation.name} to key {name} because its type is not LIST.")


def _appended(parts: list[str], given: list[str]) -> list[str]:
    present = set(parts)
    return parts + [part for part in dict.fromkeys(given) if part not in present]


def _subtracted(parts: list[str], given: list[str]) -> list[str]:
    """Each of `given` removes the first part that is equal to it."""
    removals = Counter(given)
    kept: list[str] = []
    for part in parts:
        if removals[part]:
            removals[part] -= 1
        else:
            kept.append(part)
    return kept
