"""The cluster's metadata on this broker: one shard over the metadata log, and the image that everyone reads.

A change is decided by the shard, written to the metadata log, and published once it is durable: `image` never shows
what could still be lost. Publishing comes before the reply, so whoever created a topic finds it.
"""

import base64
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import Outcome, Token
from odradek.coordinator.metadata.controller.brokers import BrokerRegistration, Registered, with_broker
from odradek.coordinator.metadata.controller.names import reason_invalid
from odradek.coordinator.metadata.controller.shard import MetadataShard, ProducerIdBlock
from odradek.coordinator.metadata.image.image import ListenerImage, MetadataImage
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.gateway.config import BrokerConfig
from odradek.gateway.coordinators.runtime import ShardRuntime, SteadyClock
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import CoordinatorUnavailable, StartError
from odradek.gateway.metadata.parts import in_parts
from odradek.gateway.replication.replica import Replica
from odradek.partitions.config import LogConfig
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from odradek.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from odradek.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from odradek.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from odradek.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from odradek.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

log = logging.getLogger(__name__)

R = TypeVar("R")
Operation = Callable[[MetadataShard, Token, int], Outcome]

METADATA_KEY: Final = PartitionKey("__cluster_metadata", UUID(int=1), 0)
"""Kafka's name and id of the metadata log."""
METADATA_LEADER_EPOCH: Final = 1
CLUSTER_ID: Final = "odradek.cluster.id"
METADATA_MAX_BATCH_BYTES: Final = 64 * 1024 * 1024


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """What the metadata log acts on: it is kept for ever, and rolls as `metadata.log.segment.…` says."""
    return LogConfig(
        max_message_bytes=METADATA_MAX_BATCH_BYTES,
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
    )


class MetadataService:
    """The metadata shard's runtime, and its published image.

    `on_published(before, after)` is called with every new image, on the Trio thread, before the replies go out.
    All operations raise CoordinatorUnavailable when the metadata log does not serve.
    """

    def __init__(self, replica: Replica, env: Environment, config: MetadataConfig) -> None:
        self.on_published: Callable[[MetadataImage, MetadataImage], None] = lambda _before, _after: None
        self._env = env
        self._config = config
        self._registration: BrokerRegistration | None = None
        self._is_registered = False
        self._runtime = ShardRuntime(replica, SteadyClock(env), lambda: MetadataShard(config), publish=self._to_publish)
        self._image = MetadataImage()
        self._was_removed: Callable[[UUID], bool] = lambda _: False

    @property
    def image(self) -> MetadataImage:
        """The newest durable image."""
        return self._image

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic that has this id now, None when there is none."""
        topic = self._image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def was_deleted(self, topic_id: UUID) -> bool:
        """Whether the metadata log tells of the deletion of a topic that is not in the image."""
        return self._was_removed(topic_id)

    async def load(self) -> None:
        """Replay the metadata log. Raises CoordinatorUnavailable."""
        await self._runtime.load()

    def extent(self) -> tuple[int, int]:
        """The metadata log's high watermark and end. Raises PartitionUnavailable while it does not serve."""
        log = self._runtime.replica.log
        return log.high_watermark, log.log_end_offset

    async def close(self) -> None:
        """Finish what is being written, and close the log."""
        await self._runtime.replica.close()

    async def register(self, listeners: Mapping[str, tuple[str, int]], rack: str | None) -> None:
        """Tell the cluster that this broker has started; the first broker founds the cluster.

        While the metadata log takes no writes (a full disk), a broker of a known cluster serves all the same: the image
        shows it as it is now, and the next change of metadata writes its registration first. Raises StartError, and
        CoordinatorUnavailable where there is no cluster yet.
        """
        self._registration = BrokerRegistration(
            node_id=self._config.node_id,
            incarnation_id=self._env.uuid(),
            listeners=[ListenerImage(name, host, port) for name, (host, port) in listeners.items()],
            rack=rack,
        )
        try:
            await self._write_registration(self._registration)
        except CoordinatorUnavailable:
            if not self._image.cluster_id:
                raise
            log.warning("the metadata log takes no writes: this broker serves, and is registered with the next change")
            self._publish(self._image, self._was_removed)

    async def _write_registration(self, registration: BrokerRegistration) -> None:
        cluster_id = self._config.static.get(CLUSTER_ID) or self._image.cluster_id or text_of(self._env.uuid())
        reply = await self._runtime.call(partial(_register, registration=registration, cluster_id=cluster_id))
        if isinstance(reply, RefusedError):
            raise StartError(f"{reply} ({CLUSTER_ID}; CLUSTER_ID in a container)") from reply
        assert isinstance(reply, Registered)
        self._is_registered = True

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Make topics; they can be used when this returns."""
        return await self._call(
            lambda shard, token, now_ms: shard.create_topics(request, self._uuids(), token, now_ms),
            CreateTopicsResponse,
        )

    async def auto_create(self, names: Collection[str]) -> Mapping[str, RefusedError | None]:
        """Make topics that someone asked for; None for a name whose topic is there now."""
        outcomes: dict[str, RefusedError | None] = {}
        for part in in_parts(tuple(names), ()):
            reply = await self._change(partial(_auto_create, part, self._uuids()))
            assert isinstance(reply, dict)
            outcomes |= reply
        return outcomes

    async def delete_topics(self, request: "DeleteTopicsRequest", api_version: int) -> "DeleteTopicsResponse":
        """Delete topics; nobody finds them any more when this returns, their logs go soon after."""
        from odradek.wire.messages.delete_topics import DeleteTopicsResponse

        return await self._call(
            lambda shard, token, now_ms: shard.delete_topics(request, api_version, token, now_ms),
            DeleteTopicsResponse,
        )

    async def create_partitions(self, request: "CreatePartitionsRequest") -> "CreatePartitionsResponse":
        """Give topics more partitions."""
        from odradek.wire.messages.create_partitions import CreatePartitionsResponse

        return await self._call(
            lambda shard, token, now_ms: shard.create_partitions(request, token, now_ms), CreatePartitionsResponse
        )

    async def alter_configs(self, request: "AlterConfigsRequest") -> "AlterConfigsResponse":
        """Replace all settings of resources; in force when this returns."""
        from odradek.wire.messages.alter_configs import AlterConfigsResponse

        return await self._call(
            lambda shard, token, now_ms: shard.alter_configs(request, token, now_ms), AlterConfigsResponse
        )

    async def incremental_alter_configs(
        self, request: "IncrementalAlterConfigsRequest"
    ) -> "IncrementalAlterConfigsResponse":
        """Change single settings of resources; in force when this returns."""
        from odradek.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

        return await self._call(
            lambda shard, token, now_ms: shard.incremental_alter_configs(request, token, now_ms),
            IncrementalAlterConfigsResponse,
        )

    async def alter_client_quotas(self, request: "AlterClientQuotasRequest") -> "AlterClientQuotasResponse":
        """Set and remove quotas; described when this returns."""
        from odradek.wire.messages.alter_client_quotas import AlterClientQuotasResponse

        return await self._call(
            lambda shard, token, now_ms: shard.alter_client_quotas(request, token, now_ms), AlterClientQuotasResponse
        )

    async def alter_user_scram_credentials(
        self, request: "AlterUserScramCredentialsRequest"
    ) -> "AlterUserScramCredentialsResponse":
        """Set and remove users' passwords; described when this returns."""
        from odradek.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse

        return await self._call(
            lambda shard, token, now_ms: shard.alter_user_scram_credentials(request, token, now_ms),
            AlterUserScramCredentialsResponse,
        )

    async def update_features(self, request: "UpdateFeaturesRequest", api_version: int) -> "UpdateFeaturesResponse":
        """Change the levels of features; in force when this returns."""
        from odradek.wire.messages.update_features import UpdateFeaturesResponse

        return await self._call(
            lambda shard, token, now_ms: shard.update_features(request, api_version, token, now_ms),
            UpdateFeaturesResponse,
        )

    async def unregister_broker(self, request: "UnregisterBrokerRequest") -> "UnregisterBrokerResponse":
        """Forget a broker that will not come back."""
        from odradek.wire.messages.unregister_broker import UnregisterBrokerResponse

        return await self._call(
            lambda shard, token, now_ms: shard.unregister_broker(request, token, now_ms), UnregisterBrokerResponse
        )

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """The first of a block of new producer ids, and how many there are."""
        block = await self._call(
            lambda shard, token, now_ms: shard.allocate_producer_ids(token, now_ms), ProducerIdBlock
        )
        return block.first, block.size

    @staticmethod
    def error_of_missing(name: str) -> ErrorCode:
        """What a client is told of a topic that is not there."""
        invalid = reason_invalid(name) is not None
        return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def _call(self, operation: Operation, reply_type: type[R]) -> R:
        reply = await self._change(operation)
        assert isinstance(reply, reply_type)
        return reply

    async def _change(self, operation: Operation) -> object:
        if self._registration is not None and not self._is_registered:
            await self._write_registration(self._registration)
        return await self._runtime.call(operation)

    def _uuids(self) -> Iterator[UUID]:
        """Random topic ids. Kafka never gives one whose text begins with a hyphen, for it looks like an option."""
        fresh = (self._env.uuid() for _ in itertools.count())
        return (each for each in fresh if not text_of(each).startswith("-"))

    def _to_publish(self, shard: MetadataShard) -> Callable[[], None]:
        return partial(self._publish, shard.image, shard.was_removed)

    def _publish(self, image: MetadataImage, was_removed: Callable[[UUID], bool]) -> None:
        if self._registration is not None:
            image = with_broker(image, self._registration)
        before, self._image, self._was_removed = self._image, image, was_removed
        self.on_published(before, image)


def _auto_create(
    names: Collection[str], uuids: Iterator[UUID], shard: MetadataShard, token: Token, now_ms: int
) -> Outcome:
    return shard.auto_create_topics(names, uuids, token, now_ms)


def _register(
    shard: MetadataShard, token: Token, now_ms: int, *, registration: BrokerRegistration, cluster_id: str
) -> Outcome:
    return shard.register(registration, token, now_ms, cluster_id=cluster_id)


def text_of(value: UUID) -> str:
    """A UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
