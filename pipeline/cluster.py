"""Topics' partitions, offsets and settings, and groups' committed offsets, for planning jobs.

Uses confluent-kafka's admin client; works with any Kafka. Groups' offsets use our own wire messages, for the reason in
`wire_groups.py`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateImportUsage=false
# confluent-kafka's types are incomplete

import importlib.util
import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import MissingError, PipelineError
from odradek.pipeline.topic_partition import EARLIEST, LATEST, Offsets, TopicPartition

LOG: Final = logging.getLogger("odradek.pipeline")


class Cluster:
    """Open with `with Cluster(connection) as cluster`. All methods raise PipelineError with the broker's message."""

    def __init__(self, connection: Connection) -> None:
        if importlib.util.find_spec("confluent_kafka") is None:
            raise MissingError("this job needs confluent-kafka: pip install 'odradek[spark]'")
        from confluent_kafka.admin import AdminClient

        self.connection = connection
        settings: dict[str, Any] = {**connection.for_librdkafka(), "client.id": "odradek-pipeline"}
        self._admin = AdminClient(settings, logger=LOG)
        self._timeout_s = connection.timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: librdkafka ends its threads when the object is deleted."""

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises PipelineError for one that does not exist."""
        found = self.topics()
        wanted = list(topics)
        missing = [topic for topic in wanted if topic not in found]
        if missing:
            raise PipelineError(f"{self.connection.bootstrap} has no topic {', '.join(repr(one) for one in missing)}")
        return {topic: found[topic] for topic in wanted}

    def topics(self) -> dict[str, int]:
        """Return all topics, internal ones included, with their numbers of partitions."""
        from confluent_kafka import KafkaException

        try:
            metadata = self._admin.list_topics(timeout=self._timeout_s)
        except KafkaException as error:
            raise self._failure("the list of topics", error) from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return all partitions of the topics, in order."""
        counts = self.partition_counts(topics)
        return [TopicPartition(topic, index) for topic, count in counts.items() for index in range(count)]

    def offsets(self, at: Mapping[TopicPartition, int], *, committed_only: bool = False) -> Offsets:
        """Return the offset of each partition at EARLIEST, LATEST or a timestamp in ms (-1: no record from that time
        on).

        With `committed_only` LATEST is the last stable offset, else the high watermark. Retried for up to the
        connection's `timeout_s` while a partition has no leader, as a topic that was just created.
        """
        from confluent_kafka import IsolationLevel, KafkaException
        from confluent_kafka import TopicPartition as KafkaTopicPartition
        from confluent_kafka.admin import OffsetSpec

        from odradek.pipeline.retrying import NO_LEADER, Retries

        if not at:
            return {}
        specs = {EARLIEST: OffsetSpec.earliest(), LATEST: OffsetSpec.latest()}
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        request: dict[Any, Any] = {
            KafkaTopicPartition(place.topic, place.partition): specs.get(time) or OffsetSpec.for_timestamp(time)
            for place, time in at.items()
        }
        retries = Retries(self._timeout_s, lambda: False)
        while True:
            answers = self._admin.list_offsets(request, isolation_level=level, request_timeout=self._timeout_s)
            try:
                return {
                    TopicPartition(place.topic, place.partition): answer.result().offset
                    for place, answer in answers.items()
                }
            except KafkaException as error:
                if error.args[0].code() not in NO_LEADER or retries.is_over:
                    raise self._failure("the offsets", error) from error
            retries.wait()

    def committed(self, group: str) -> Offsets:
        """Return the group's committed offsets; empty for a group that does not exist."""
        from odradek.pipeline.wire_client import WireClient
        from odradek.pipeline.wire_groups import WireGroups

        with WireClient(self.connection) as client:
            return WireGroups(client).committed(group)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members, to publish progress."""
        from odradek.pipeline.wire_client import WireClient
        from odradek.pipeline.wire_groups import WireGroups

        with WireClient(self.connection) as client:
            WireGroups(client).commit(group, offsets)

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with the cluster's default replication factor; raises PipelineError if it exists already."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(config or {}))
        answer = self._admin.create_topics([new], request_timeout=self._timeout_s)[topic]
        try:
            answer.result()
        except KafkaException as error:
            raise self._failure(f"topic {topic!r}", error) from error

    def topic_config(self, topic: str) -> dict[str, str | None]:
        """Return the settings that are set on the topic itself; those of the cluster and defaults are omitted."""
        return self.topic_configs([topic])[topic]

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """As `topic_config`, for several topics in one request."""
        from confluent_kafka.admin import ConfigSource

        set_on_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            topic: {name: entry.value for name, entry in entries.items() if entry.source == set_on_topic}
            for topic, entries in self._described(topics).items()
        }

    def effective_config(self, topic: str) -> dict[str, str | None]:
        """Return the settings that apply to the topic: its own, else the cluster's, else the defaults."""
        return {name: entry.value for name, entry in self._described([topic])[topic].items()}

    def is_compacted(self, topic: str) -> bool:
        """True if the `cleanup.policy` that applies to the topic has `compact`."""
        return "compact" in (self.effective_config(topic).get("cleanup.policy") or "")

    def _described(self, topics: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return all settings of the topics, as confluent-kafka's ConfigEntry."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for resource, answer in self._admin.describe_configs(resources, request_timeout=self._timeout_s).items():
            try:
                found[resource.name] = answer.result()
            except KafkaException as error:
                raise self._failure(f"the settings of {resource.name!r}", error) from error
        return found

    def alter_topic_config(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Set these of the topic's settings; None removes one. Others are not changed."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [
            ConfigEntry(name, value or "", incremental_operation=AlterConfigOpType.DELETE)
            if value is None
            else ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        [answer] = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s).values()
        try:
            answer.result()
        except KafkaException as error:
            raise self._failure(f"the settings of {topic!r}", error) from error

    def _failure(self, what: str, error: Any) -> PipelineError:  # noqa: ANN401 - confluent-kafka has no types
        reason = error.args[0]
        hint = " (is a broker running there?)" if reason.code() < 0 else ""
        return PipelineError(f"{self.connection.bootstrap}: {what}: {reason.str()}{hint}")
