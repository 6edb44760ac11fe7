"""Kafka's names of APIs and errors, checked, with a suggestion for a name that does not exist."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode

ANY_API: Final = "*"
"""Stands for requests of all APIs."""


def name_of_api(api: ApiKey) -> str:
    """Kafka's name of an API, such as `OffsetForLeaderEpoch`."""
    return "".join([word.capitalize() for word in api.name.split("_")])


def api_named(name: str) -> ApiKey | None:
    """The API of a name as Kafka writes it; None for `*`, which means all. Raises ValueError with a suggestion."""
    if name == ANY_API:
        return None
    known = {name_of_api(api): api for api in ADVERTISED}
    if name not in known:
        raise ValueError(f"there is no API {name!r}{_suggested(name, known)}")
    return known[name]


def error_named(name: str) -> ErrorCode:
    """The error code of a name, such as `NOT_LEADER_OR_FOLLOWER`. Raises ValueError with a suggestion."""
    known = [each.name for each in ErrorCode if each is not ErrorCode.NONE]
    if name not in known:
        raise ValueError(f"there is no error {name!r}{_suggested(name, known)}")
    return ErrorCode[name]


def _suggested(name: str, known: Collection[str]) -> str:
    alike = {each.lower().replace("_", ""): each for each in known}
    found = get_close_matches(name.lower().replace("_", ""), alike, n=3, cutoff=0.5)
    return f": did you mean {', '.join([alike[each] for each in found])}?" if found else ""
