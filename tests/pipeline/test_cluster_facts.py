"""Facts about topics, from a running broker."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import EARLIEST, LATEST, TopicPartition
from tests.pipeline.archive.topics import set_at_broker

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partitions_offsets_and_settings(connection: Connection):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 2, {"retention.ms": "-1"})
        producer = Producer(connection.for_librdkafka())
        for second in range(3):
            producer.produce("t", b"v", partition=0, timestamp=1_000 * (second + 1))
        producer.flush()
        assert cluster.partitions(["t"]) == [FIRST, SECOND]
        assert cluster.offsets({FIRST: LATEST, SECOND: LATEST}, committed_only=True) == {FIRST: 3, SECOND: 0}
        assert cluster.offsets({FIRST: EARLIEST, SECOND: 5}) == {FIRST: 0, SECOND: -1}
        assert cluster.offsets({FIRST: 1_500}) == {FIRST: 1}
        assert cluster.topic_config("t") == {"retention.ms": "-1"}


def test_the_cluster_s_settings_apply_to_a_topic_without_its_own(connection: Connection):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1)
        cluster.create_topic("own", 1, {"cleanup.policy": "delete"})
        assert not cluster.is_compacted("t")
        set_at_broker(connection, "log.cleanup.policy", "compact")
        assert (cluster.is_compacted("t"), cluster.is_compacted("own")) == (True, False)
        assert cluster.effective_config("t")["cleanup.policy"] == "compact"
        assert cluster.topic_config("t") == {}


def test_offsets_are_requested_again_while_a_partition_has_no_leader(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    real, answers = AdminClient.list_offsets, [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION]

    def list_offsets(admin, request, **options):
        if not answers:
            return real(admin, request, **options)
        failed = Future()
        failed.set_exception(KafkaException(KafkaError(answers.pop())))
        return dict.fromkeys(request, failed)

    monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 1)
        assert cluster.offsets({FIRST: LATEST}) == {FIRST: 0}
        answers.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(PipelineError, match="the offsets"):
            cluster.offsets({FIRST: LATEST})


def test_progress_is_published_as_a_group(connection: Connection):
    with Cluster(connection) as cluster:
        cluster.create_topic("t", 2)
        assert cluster.committed("job") == {}
        cluster.commit("job", {FIRST: 3})
        assert cluster.committed("job") == {FIRST: 3}


def test_a_missing_topic_is_named(connection: Connection):
    with Cluster(connection) as cluster, pytest.raises(PipelineError, match="no topic 'absent'"):
        cluster.partitions(["absent"])


def test_an_absent_broker_is_reported():
    with (
        Cluster(Connection("127.0.0.1:1", timeout_s=1.0)) as cluster,
        pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"),
    ):
        cluster.topics()
