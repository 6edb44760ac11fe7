"""Topics of a test's broker."""

from collections.abc import Mapping

from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.gateway.assembly import Services
from odradek.gateway.errors import CoordinatorUnavailable
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest


async def create_topic(services: Services, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create a topic, and return when clients can use it.

    Raises RuntimeError if it is refused, or if the metadata log is unavailable.
    """
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=tuple([CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]),
    )
    request = CreateTopicsRequest(topics=(wanted,))
    try:
        response = await services.controller.decide(create_topics, request)
    except CoordinatorUnavailable as error:
        raise RuntimeError(f"cannot create topic {name}: the metadata log does not serve") from error
    result = response.topics[0]
    if result.error_code:
        raise RuntimeError(f"cannot create topic {name}: {result.error_message}")
