"""Topic names: the internal topics, and Kafka's rules and messages for valid names."""

import re
from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.wire.errors import ErrorCode

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))

MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def reason_invalid(name: str) -> str | None:
    """Returns why `name` is not a valid topic name, or None if it is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def error_of_missing(name: str) -> ErrorCode:
    """Returns the error code for a topic that does not exist."""
    invalid = reason_invalid(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_topic_name(name: str) -> None:
    """Raise RefusedError (INVALID_TOPIC_EXCEPTION) if `name` is not a valid topic name."""
    reason = reason_invalid(name)
    if reason is not None:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def collision_key(name: str) -> str | None:
    """Returns a key that is equal for names that collide in metrics, where "." becomes "_"; None without either."""
    unified = name.replace(".", "_")
    return unified if "_" in unified else None
