"""Creates topics."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypedDict

from odradek.gateway.config.python_values import setting_texts
from odradek.gateway.testing.kit.access import Access
from odradek.gateway.testing.kit.errors import TemporaryError, UnknownTopicError, check
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from odradek.gateway.config import SettingValue

VERSION: Final = 7
TIMEOUT_MS: Final = 30_000


class TopicOptions(TypedDict, total=False):
    """A new topic: the number of its partitions (1), and its configs under Kafka's names (none)."""

    partitions: int
    configs: "Mapping[str, SettingValue]"


Topics: TypeAlias = "Mapping[str, int | TopicOptions]"
"""New topics by name: the number of partitions, or a dictionary of options."""


class NewTopic(NamedTuple):
    """A topic to create, with its settings as text."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    replication_factor: int = -1


def new_topics(topics: Topics) -> list[NewTopic]:
    """The topics of a dictionary. Raises TypeError for unknown options, ConfigError for a value of a wrong type."""
    return [new_topic(name, options) for name, options in topics.items()]


def new_topic(name: str, options: int | TopicOptions, replication_factor: int = -1) -> NewTopic:
    """A topic from the number of its partitions, or its options. Raises as `new_topics`."""
    if isinstance(options, int):
        return NewTopic(name, options, {}, replication_factor)
    unknown = options.keys() - TopicOptions.__annotations__
    if unknown:
        raise TypeError(f"topic {name!r}: no option {', '.join(sorted(unknown))}; there are partitions and configs")
    return NewTopic(name, options.get("partitions", 1), setting_texts(options.get("configs")), replication_factor)


async def create_topics(access: Access, topics: list[NewTopic]) -> None:
    """Create topics, and return when all their partitions have leaders. Raises KitError at the first that is refused;
    the others may exist then.
    """
    wanted = [
        CreatableTopic(
            name=each.name,
            num_partitions=each.partitions,
            replication_factor=each.replication_factor,
            configs=tuple([CreatableTopicConfig(name=key, value=value) for key, value in each.configs.items()]),
        )
        for each in topics
    ]
    request = CreateTopicsRequest(topics=tuple(wanted), timeout_ms=TIMEOUT_MS)
    response = await access.ask(request, CreateTopicsResponse, VERSION)
    for result in response.topics:
        check(result.error_code, f"cannot create topic {result.name}", result.error_message, temporary=())
    if access.learns_late:
        from odradek.gateway.testing.kit.lookup import retried

        for each in topics:
            await retried(access, lambda name=each.name: _has_leaders(access, name))


async def _has_leaders(access: Access, name: str) -> None:
    from odradek.gateway.testing.kit.lookup import topic_of

    try:
        await topic_of(access, name)
    except UnknownTopicError as error:  # this broker learns of it soon
        raise TemporaryError(str(error), "UNKNOWN_TOPIC_OR_PARTITION") from error


async def create_missing(access: Access, topics: list[NewTopic]) -> None:
    """Create the topics that are not there. Raises KitError."""
    from odradek.gateway.testing.kit.lookup import topic_names

    names = set(await topic_names(access))
    missing = [each for each in topics if each.name not in names]
    if missing:
        await create_topics(access, missing)
