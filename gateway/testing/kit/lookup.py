"""What the metadata says about topics, and the retrying of what fails for a while."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.errors import TemporaryError, UnknownTopicError, UnreachableError, check
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

T = TypeVar("T")

VERSION: Final = 12
NAMES_SHOWN: Final = 20
NOT_THERE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Topic(NamedTuple):
    """A topic: its id, and the leader of each partition."""

    name: str
    topic_id: UUID
    leaders: dict[int, int]


async def retried(access: Access, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of `attempt`, which is repeated while it raises TemporaryError or UnreachableError.

    There is no end: the caller has a time limit. `access.trouble` says meanwhile what the last error was.
    """
    access.trouble = ""
    while True:
        try:
            return await attempt()
        except (TemporaryError, UnreachableError) as error:
            access.trouble = str(error)
            await access.pause()


async def topic_of(access: Access, name: str, *, may_create: bool = False) -> Topic:
    """The topic of this name. `may_create`: as a producer asks, so that a broker may create it.

    Raises UnknownTopicError with the names that are there, TemporaryError if a partition has no leader.
    """
    [found] = await _described(access, (MetadataRequestTopic(name=name),), may_create)
    if found.error_code in NOT_THERE:
        raise UnknownTopicError(_unknown(name, await topic_names(access)))
    check(found.error_code, f"topic {name!r}")
    for part in found.partitions:
        check(0 if part.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{part.partition_index}")
    return Topic(name, found.topic_id, {part.partition_index: part.leader_id for part in found.partitions})


async def topic_names(access: Access) -> list[str]:
    """The names of all topics, in their order."""
    return sorted([topic.name or "" for topic in await _described(access, None, may_create=False)])


async def _described(
    access: Access, topics: tuple[MetadataRequestTopic, ...] | None, may_create: bool
) -> tuple[MetadataResponseTopic, ...]:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
    return (await access.ask(request, MetadataResponse, VERSION)).topics


def _unknown(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    users = [each for each in names if not each.startswith("__")]
    near = get_close_matches(name, users, n=3)
    if near:
        return f"there is no topic {name!r}; did you mean {' or '.join(map(repr, near))}?"
    if not users:
        return f"there is no topic {name!r}: the broker has no topics"
    more = f" and {len(users) - NAMES_SHOWN} more" if len(users) > NAMES_SHOWN else ""
    return f"there is no topic {name!r}; the broker has {', '.join(map(repr, users[:NAMES_SHOWN]))}{more}"
