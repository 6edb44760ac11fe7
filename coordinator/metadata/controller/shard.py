"""The metadata shard: operations decide and return records, `replay` alone changes the image.

Every operation answers errors in its reply and raises nothing for what a client may send. Replies are response
messages, but for `register` (`Registered` or `RefusedError`), `auto_create_topics` (a RefusedError or None per name)
and `allocate_producer_ids` (`ProducerIdBlock`).

What decides about anything but brokers that start and topics that are made is imported when it is first asked for: a
broker starts faster.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token
from odradek.coordinator.metadata.controller.auto_create import auto_create_topics
from odradek.coordinator.metadata.controller.brokers import (
    BrokerRegistration,
    Registered,
    found_cluster,
    register_broker,
)
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import from_shard_record, to_shard_records
from odradek.coordinator.metadata.image.replay import ImageBuilder
from odradek.coordinator.metadata.settings import Basis, CurrentLayers, MetadataConfig
from odradek.wire.messages.create_topics import CreateTopicsRequest
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import ProducerIdsRecord

if TYPE_CHECKING:
    from odradek.wire.messages.alter_client_quotas import AlterClientQuotasRequest
    from odradek.wire.messages.alter_configs import AlterConfigsRequest
    from odradek.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
    from odradek.wire.messages.create_partitions import CreatePartitionsRequest
    from odradek.wire.messages.delete_topics import DeleteTopicsRequest
    from odradek.wire.messages.describe_configs import DescribeConfigsRequest
    from odradek.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
    from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest
    from odradek.wire.messages.update_features import UpdateFeaturesRequest

PRODUCER_ID_BLOCK: Final = 1000
"""How many producer ids a broker gets at a time, as in Kafka (KIP-730)."""


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` on, `size` of them, that were never given before and never will be again."""

    first: int
    size: int


class MetadataShard:
    """The cluster's metadata; implements `odradek.coordinator.contract.Shard`."""

    def __init__(self, config: MetadataConfig) -> None:
        self._config = config
        self._builder = ImageBuilder()
        self._layers = CurrentLayers(config)

    # What the runtime calls

    @property
    def image(self) -> MetadataImage:
        """The image after all records replayed so far, durable or not: publish it when its records are."""
        return self._builder.image

    def was_removed(self, topic_id: UUID) -> bool:
        """Whether the log says that the topic was deleted, durably or not."""
        return self._builder.was_removed(topic_id)

    def replay(self, record: ShardRecord, now_ms: int) -> None:
        """Apply one record. Raises ProtocolError for one that a newer version wrote: this one must not go on then."""
        message = from_shard_record(record)
        if message is not None:
            self._builder.apply(message)

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """Metadata knows no transactions."""

    def on_loaded(self, now_ms: int) -> Outcome:
        """Nothing to finish."""
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        """Nothing is ever due."""
        return None

    def on_time(self, now_ms: int) -> Outcome:
        """Nothing is ever due."""
        return Outcome()

    def forget(self, token: Token) -> None:
        """No operation waits."""

    # Operations

    def basis(self) -> Basis:
        """What decisions rest on now."""
        image = self.image
        return Basis(image, self._layers.under(image), self._config.node_id)

    def register(
        self,
        registration: BrokerRegistration,
        token: Token,
        now_ms: int,
        *,
        cluster_id: str,
    ) -> Outcome:
        """This broker starts. A new cluster takes `cluster_id`; for an existing one it must be its id, or empty.

        The reply is `Registered`, or a RefusedError (INCONSISTENT_CLUSTER_ID).
        """
        image = self.image
        try:
            founding = found_cluster(image, cluster_id)
        except RefusedError as refused:
            return Outcome(replies=[Reply(token, refused)])
        epoch = image.record_count + len(founding)
        records = [*founding, register_broker(image, registration, epoch)]
        return _outcome(records, token, Registered(image.cluster_id or cluster_id, epoch))

    def create_topics(
        self,
        request: CreateTopicsRequest,
        uuids: Iterator[UUID],
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """CreateTopics, all versions; `uuids` gives random ids for new topics."""
        return _outcome(*_reply(token, create_topics(self.basis(), request, uuids)))

    def auto_create_topics(
        self,
        names: Collection[str],
        uuids: Iterator[UUID],
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """Make topics that someone asked for; internal ones as their coordinators need them.

        The reply maps each name to None, when the topic is there now, or to the RefusedError.
        """
        return _outcome(*_reply(token, auto_create_topics(self.basis(), names, uuids)))

    def delete_topics(
        self,
        request: "DeleteTopicsRequest",
        api_version: int,
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """DeleteTopics, all versions."""
        from odradek.coordinator.metadata.controller.delete_topics import delete_topics

        return _outcome(*_reply(token, delete_topics(self.basis(), request, api_version)))

    def create_partitions(self, request: "CreatePartitionsRequest", token: Token, now_ms: int) -> Outcome:
        """CreatePartitions, all versions."""
        from odradek.coordinator.metadata.controller.create_partitions import create_partitions

        return _outcome(*_reply(token, create_partitions(self.basis(), request)))

    def alter_configs(self, request: "AlterConfigsRequest", token: Token, now_ms: int) -> Outcome:
        """AlterConfigs, all versions."""
        from odradek.coordinator.metadata.controller.alter_configs import alter_configs

        return _outcome(*_reply(token, alter_configs(self.basis(), request)))

    def incremental_alter_configs(
        self,
        request: "IncrementalAlterConfigsRequest",
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """IncrementalAlterConfigs, all versions."""
        from odradek.coordinator.metadata.controller.alter_configs import incremental_alter_configs

        return _outcome(*_reply(token, incremental_alter_configs(self.basis(), request)))

    def describe_configs(
        self,
        request: "DescribeConfigsRequest",
        loggers: Mapping[str, str],
        token: Token,
        now_ms: int,
    ) -> Outcome:
        """DescribeConfigs, all versions; `loggers` are this broker's log levels by logger."""
        from odradek.coordinator.metadata.describe_configs import describe_configs

        return Outcome(replies=[Reply(token, describe_configs(self.basis(), request, loggers))])

    def alter_client_quotas(self, request: "AlterClientQuotasRequest", token: Token, now_ms: int) -> Outcome:
        """AlterClientQuotas, all versions."""
        from odradek.coordinator.metadata.controller.client_quotas import alter_client_quotas

        return _outcome(*_reply(token, alter_client_quotas(self.image, request)))

    def alter_user_scram_credentials(
        self, request: "AlterUserScramCredentialsRequest", token: Token, now_ms: int
    ) -> Outcome:
        """AlterUserScramCredentials, all versions."""
        from odradek.coordinator.metadata.controller.scram import alter_user_scram_credentials

        return _outcome(*_reply(token, alter_user_scram_credentials(self.image, request)))

    def update_features(self, request: "UpdateFeaturesRequest", api_version: int, token: Token, now_ms: int) -> Outcome:
        """UpdateFeatures, all versions."""
        from odradek.coordinator.metadata.controller.features import update_features

        return _outcome(*_reply(token, update_features(self.image.features, request, api_version)))

    def unregister_broker(self, request: "UnregisterBrokerRequest", token: Token, now_ms: int) -> Outcome:
        """UnregisterBroker, all versions."""
        from odradek.coordinator.metadata.controller.unregister_broker import unregister_broker

        return _outcome(*_reply(token, unregister_broker(self.image, request, self._config.node_id)))

    def allocate_producer_ids(self, token: Token, now_ms: int, count: int = PRODUCER_ID_BLOCK) -> Outcome:
        """A block of producer ids for this broker."""
        first = self.image.next_producer_id
        broker = self.image.brokers.get(self._config.node_id)
        record = ProducerIdsRecord(
            broker_id=self._config.node_id,
            broker_epoch=-1 if broker is None else broker.epoch,
            next_producer_id=first + count,
        )
        return _outcome([record], token, ProducerIdBlock(first, count))


def _reply(token: Token, decided: tuple[list[Message], object]) -> tuple[list[Message], Token, object]:
    records, value = decided
    return records, token, value


def _outcome(records: Iterable[Message], token: Token, value: object) -> Outcome:
    return Outcome(to_shard_records(records), [Reply(token, value)])
