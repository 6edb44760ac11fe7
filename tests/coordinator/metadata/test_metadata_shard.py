"""The shard beyond the recorded Kafka session: limits, internal topics, brokers, ids, replay."""

from functools import partial
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_shards import NOW_MS, ShardUnderTest, add

from odradek.coordinator.configs.definition import ConfigSource, ResourceType
from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.metadata.controller.alter_configs import alter_configs, incremental_alter_configs
from odradek.coordinator.metadata.controller.auto_create import auto_create_topics
from odradek.coordinator.metadata.controller.brokers import Registered
from odradek.coordinator.metadata.controller.create_partitions import create_partitions
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.delete_topics import delete_topics
from odradek.coordinator.metadata.controller.producer_ids import ProducerIdBlock, allocate_producer_ids
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import to_shard_records
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.image.snapshot import snapshot_records
from odradek.coordinator.metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.wire.errors import ErrorCode, ProtocolError
from odradek.wire.messages.alter_configs import AlterableConfig as LegacyConfig
from odradek.wire.messages.alter_configs import AlterConfigsRequest
from odradek.wire.messages.alter_configs import AlterConfigsResource as LegacyResource
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


def creatable(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> CreatableTopic:
    listed = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in configs.items())
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=listed)


def create(shard: ShardUnderTest, *topics: CreatableTopic, validate_only: bool = False):
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return shard.run(create_topics, request).topics


def auto_create(shard: ShardUnderTest, *names: str):
    return shard.run(auto_create_topics, names)


def delete(shard: ShardUnderTest, *names: str, version: int = 5):
    request = DeleteTopicsRequest(topic_names=names)
    return shard.run(partial(delete_topics, api_version=version), request).responses


def grow(shard: ShardUnderTest, name: str, count: int):
    request = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name=name, count=count, assignments=None),))
    return shard.run(create_partitions, request).results[0]


def alter(
    shard: ShardUnderTest, kind: ResourceType, resource: str, name: str, value: str | None, *, operation: int = 0
):
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resources = (AlterConfigsResource(resource_type=kind, resource_name=resource, configs=(config,)),)
    request = IncrementalAlterConfigsRequest(resources=resources)
    return shard.run(incremental_alter_configs, request).responses[0]


def snapshot(image: MetadataImage) -> MetadataImage:
    delta = MetadataDelta()
    for offset, record in enumerate(snapshot_records(image)):
        replay(delta, record, offset, 1)
    return delta.apply()


class TestTopics:
    def test_a_topic_can_be_found_by_name_and_id(self):
        shard = ShardUnderTest()
        (result,) = create(shard, creatable("a", 3))
        topic = shard.image.topic("a")
        assert topic is not None
        assert topic is shard.image.topic_by_id(result.topic_id)
        assert [p.leader for p in topic.partitions] == [1, 1, 1]
        assert topic.partitions[0].leader_epoch == topic.partitions[0].partition_epoch == 0
        assert shard.image.partition("a", 2) == topic.partitions[2]
        assert shard.image.partition("a", 3) is None
        assert shard.image.topic_by_id(UUID(int=0)) is None
        assert shard.image.partition_count == 3

    def test_an_image_that_was_taken_never_changes(self):
        shard = ShardUnderTest()
        create(shard, creatable("a"))
        before = shard.image
        create(shard, creatable("b"))
        grow(shard, "a", 2)
        assert list(before.topics_by_name) == ["a"]
        assert len(before.topics_by_name["a"].partitions) == 1
        assert shard.image.brokers is before.brokers

    def test_validate_only_records_nothing(self):
        shard = ShardUnderTest()
        before = list(shard.log)
        (result,) = create(shard, creatable("a"), validate_only=True)
        assert result.error_code == ErrorCode.NONE
        assert shard.log == before

    def test_the_answer_shows_configs_with_their_sources(self):
        shard = ShardUnderTest({"log.segment.bytes": "2000000"})
        (result,) = create(shard, creatable("a", retention_ms="5"))
        sources = {config.name: (config.value, config.config_source) for config in result.configs}
        assert sources["retention.ms"] == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
        assert sources["segment.bytes"] == ("2000000", ConfigSource.STATIC_BROKER_CONFIG)
        assert sources["flush.messages"] == ("1", ConfigSource.DEFAULT_CONFIG)

    def test_deletion_takes_configs_and_collisions_with_it(self):
        shard = ShardUnderTest()
        create(shard, creatable("a.b", retention_ms="5"))
        assert create(shard, creatable("a_b"))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert delete(shard, "a.b")[0].error_code == ErrorCode.NONE
        assert list(shard.image.configs) == [(ResourceType.BROKER, "")]
        assert shard.image.colliding == {}
        assert shard.image.partition_count == 0
        assert create(shard, creatable("a_b"))[0].error_code == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
    )
    def test_deletion_can_be_disabled(self, version: int, code: ErrorCode):
        shard = ShardUnderTest({"delete.topic.enable": "false"})
        create(shard, creatable("a"))
        assert delete(shard, "a", version=version)[0].error_code == code
        assert shard.image.topic("a") is not None

    def test_a_topic_made_again_has_another_id(self):
        shard = ShardUnderTest()
        create(shard, creatable("a"))
        first = shard.image.topics_by_name["a"].topic_id
        delete(shard, "a")
        create(shard, creatable("a"))
        assert shard.image.topics_by_name["a"].topic_id != first
        assert shard.image.topic_by_id(first) is None

    def test_limits_of_topics_and_partitions_hold(self):
        shard = ShardUnderTest({"odradek.topics.max": "2", "odradek.partitions.max": "5"})
        results = create(shard, creatable("a", 3), creatable("b", 3), creatable("c", 2), creatable("d"))
        codes = [result.error_code for result in results]
        assert codes == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
        assert "odradek.partitions.max=5" in (results[1].error_message or "")
        assert "odradek.topics.max=2" in (results[3].error_message or "")
        assert grow(shard, "a", 4).error_code == ErrorCode.POLICY_VIOLATION

    def test_an_absurd_number_of_partitions_is_refused_before_it_is_counted_out(self):
        (result,) = create(ShardUnderTest(), creatable("a", 2**31 - 1))
        assert result.error_code == ErrorCode.POLICY_VIOLATION

    def test_what_was_just_decided_is_replayed_without_being_decoded(self, monkeypatch):
        shard = ShardUnderTest()
        with monkeypatch.context() as patched:
            patched.setattr("odradek.coordinator.metadata.image.records.decode_metadata_record", None)
            create(shard, creatable("a", 3, retention_ms="5"))
            grow(shard, "a", 5)
        assert len(shard.image.topics_by_name["a"].partitions) == 5
        assert shard.replayed() == shard.image


class TestAutoCreation:
    def test_a_clients_topic_has_the_defaults(self):
        shard = ShardUnderTest({"num.partitions": "4"})
        assert auto_create(shard, "a", "b", "a") == {"a": None, "b": None}
        assert len(shard.image.topics_by_name["a"].partitions) == 4
        assert auto_create(shard, "a") == {"a": None}

    def test_offsets_topic(self):
        shard = ShardUnderTest()
        assert auto_create(shard, CONSUMER_OFFSETS) == {CONSUMER_OFFSETS: None}
        topic = shard.image.topics_by_name[CONSUMER_OFFSETS]
        assert topic.is_internal
        assert len(topic.partitions) == 50
        assert shard.image.configs_of(ResourceType.TOPIC, CONSUMER_OFFSETS) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }

    def test_transaction_topic(self):
        shard = ShardUnderTest({"transaction.state.log.num.partitions": "7"})
        auto_create(shard, TRANSACTION_STATE, SHARE_GROUP_STATE)
        assert len(shard.image.topics_by_name[TRANSACTION_STATE].partitions) == 7
        configs = shard.image.configs_of(ResourceType.TOPIC, TRANSACTION_STATE)
        assert configs["cleanup.policy"] == "compact"
        assert configs["min.insync.replicas"] == "1"
        assert shard.image.configs_of(ResourceType.TOPIC, SHARE_GROUP_STATE)["retention.ms"] == "-1"

    @pytest.mark.parametrize(
        ("name", "code"),
        [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__cluster_metadata", ErrorCode.INVALID_REQUEST)],
    )
    def test_what_cannot_be_is_refused(self, name: str, code: ErrorCode):
        answer = auto_create(ShardUnderTest(), name)[name]
        assert isinstance(answer, RefusedError)
        assert answer.code is code

    def test_more_replicas_than_brokers_are_refused(self):
        shard = ShardUnderTest({"offsets.topic.replication.factor": "3"})
        assert auto_create(shard, CONSUMER_OFFSETS)[CONSUMER_OFFSETS].code is ErrorCode.INVALID_REPLICATION_FACTOR


class TestConfigs:
    def test_a_dynamic_default_counts_for_new_decisions(self):
        shard = ShardUnderTest()
        alter(shard, ResourceType.BROKER, "", "log.retention.ms", "77")
        (result,) = create(shard, creatable("a"))
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == ("77", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)

    def test_unchanged_topic_configs_are_not_recorded_but_those_of_brokers_are(self):
        shard = ShardUnderTest()
        create(shard, creatable("a", retention_ms="5"))
        before = len(shard.log)
        alter(shard, ResourceType.TOPIC, "a", "retention.ms", "5")
        alter(shard, ResourceType.TOPIC, "a", "segment.ms", None, operation=1)
        assert len(shard.log) == before
        alter(shard, ResourceType.BROKER, "1", "message.max.bytes", "5")
        alter(shard, ResourceType.BROKER, "1", "message.max.bytes", "5")
        assert len(shard.log) == before + 2

    def test_the_old_form_replaces_everything(self):
        shard = ShardUnderTest()
        create(shard, creatable("a", retention_ms="5", segment_ms="6"))
        config = LegacyConfig(name="retention.ms", value="7")
        resource = LegacyResource(resource_type=ResourceType.TOPIC, resource_name="a", configs=(config,))
        request = AlterConfigsRequest(resources=(resource,))
        shard.run(alter_configs, request)
        assert shard.image.configs_of(ResourceType.TOPIC, "a") == {"retention.ms": "7"}

    def test_group_configs_are_kept(self):
        shard = ShardUnderTest()
        alter(shard, ResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000")
        assert shard.image.configs_of(ResourceType.GROUP, "g") == {"consumer.session.timeout.ms": "50000"}


class TestBrokers:
    def test_the_first_broker_founds_the_cluster(self):
        shard = ShardUnderTest()
        assert shard.image.cluster_id == "a-cluster"
        assert shard.image.features.finalized == {
            "group.version": 1,
            "metadata.version": 30,
            "transaction.version": 2,
        }
        assert shard.image.offset == len(shard.log) - 1
        assert shard.image.brokers[1].listeners["PLAINTEXT"].port == 9092
        assert shard.image.brokers[1].is_active

    def test_a_restart_keeps_the_cluster_and_takes_a_new_epoch(self):
        shard = ShardUnderTest()
        assert shard.image.brokers[1].epoch == len(shard.log) - 1, "the offset of its registration"
        create(shard, creatable("a"))
        end = len(shard.log)
        assert shard.register() == Registered(end)
        assert shard.image.brokers[1].epoch == end
        assert len(shard.log) == end + 1

    def test_a_log_of_another_cluster_is_refused(self):
        reply = ShardUnderTest().register(cluster_id="another")
        assert isinstance(reply, RefusedError)
        assert reply.code is ErrorCode.INCONSISTENT_CLUSTER_ID

    def test_producer_ids_are_never_given_twice(self):
        shard = ShardUnderTest()
        blocks = [shard.run(allocate_producer_ids, 1000) for _ in range(3)]
        assert blocks == [ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000), ProducerIdBlock(2000, 1000)]
        assert shard.replayed().next_producer_id == 3000


class TestReplay:
    def test_changes_of_partitions(self):
        shard = ShardUnderTest(node_ids=(1, 2))
        create(shard, creatable("a", 1, 2))
        topic_id = shard.image.topics_by_name["a"].topic_id
        before = shard.image.topics_by_name["a"].partitions[0]
        delta = MetadataDelta(shard.image)
        add(delta, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2,), leader=2))
        after = delta.apply().topics_by_name["a"].partitions[0]
        assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2,), 1, 1)
        assert after.replicas == before.replicas
        add(delta, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2, 1), eligible_leader_replicas=(1,)))
        later = delta.apply().topics_by_name["a"].partitions[0]
        assert (later.leader, later.isr, later.leader_epoch, later.partition_epoch) == (2, (2, 1), 1, 2)
        assert later.elr == (1,)

    def test_brokers_are_fenced_and_leave(self):
        delta = MetadataDelta(ShardUnderTest(node_ids=(1, 2)).image)
        add(delta, BrokerRegistrationChangeRecord(broker_id=1, fenced=1))
        assert not delta.apply().brokers[1].is_active
        add(delta, BrokerRegistrationChangeRecord(broker_id=1, fenced=-1))
        assert delta.apply().brokers[1].is_active
        add(delta, BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1))
        assert not delta.apply().brokers[1].is_active
        add(delta, FenceBrokerRecord(id=2))
        assert delta.apply().brokers[2].fenced
        add(delta, UnfenceBrokerRecord(id=2))
        assert not delta.apply().brokers[2].fenced
        add(delta, UnregisterBrokerRecord(broker_id=2))
        assert list(delta.apply().brokers) == [1]

    def test_an_image_knows_the_offset_and_epoch_of_its_last_record(self):
        delta = MetadataDelta()
        assert (delta.apply().offset, delta.apply().epoch) == (-1, -1)
        replay(delta, NoOpRecord(), 7, 3)
        assert (delta.apply().offset, delta.apply().epoch) == (7, 3)

    def test_a_record_of_a_newer_version_is_refused_and_a_tombstone_passed_over(self):
        shard = ShardUnderTest()
        end = len(shard.log)
        shard.shard.replay(ShardRecord(b"", None), end, 1, NOW_MS)
        assert shard.image.offset == end
        for value in (b"", b"\x01\x7f\x00", b"\x02\x00\x00", b"\x01\x02\x63"):
            with pytest.raises(ProtocolError):
                shard.shard.replay(ShardRecord(b"", value), end + 1, 1, NOW_MS)

    def test_the_log_is_kafkas(self):
        """Frame version 1, then type and version, as Kafka's own tools read it."""
        (record,) = to_shard_records([NoOpRecord()])
        assert record.value == b"\x01\x14\x00\x00"


steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from("abcd"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.sampled_from("abcd"), st.just(0)),
    st.tuples(st.just("grow"), st.sampled_from("abcd"), st.integers(1, 9)),
    st.tuples(st.just("alter"), st.sampled_from("abcd"), st.integers(1, 3)),
    st.tuples(st.just("broker"), st.sampled_from("abcd"), st.integers(1, 3)),
    st.tuples(st.just("register"), st.just("a"), st.integers(1, 3)),
    st.tuples(st.just("ids"), st.just("a"), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25))
def test_the_image_is_what_replay_makes(taken: list[tuple[str, str, int]]):
    shard = ShardUnderTest(node_ids=(1, 2))
    run = {
        "create": lambda name, n: create(shard, creatable(f"t.{name}", n, 2, retention_ms=str(n))),
        "delete": lambda name, _n: delete(shard, f"t.{name}"),
        "grow": lambda name, n: grow(shard, f"t.{name}", n),
        "alter": lambda name, n: alter(shard, ResourceType.TOPIC, f"t.{name}", "segment.ms", str(n), operation=n % 2),
        "broker": lambda _name, n: alter(shard, ResourceType.BROKER, "", "log.retention.ms", str(n), operation=n % 2),
        "register": lambda _name, n: shard.register(n),
        "ids": lambda _name, _n: shard.run(allocate_producer_ids, 1000),
    }
    for what, name, number in taken:
        run[what](name, number)
    image = shard.image
    assert shard.replayed() == image
    assert image.partition_count == sum(len(topic.partitions) for topic in image.topics_by_id.values())
    assert set(image.topics_by_name.values()) == set(image.topics_by_id.values())
    again = snapshot(image)
    for name in ("cluster_id", "brokers", "topics_by_name", "topics_by_id", "configs", "next_producer_id", "colliding"):
        mine, theirs = getattr(again, name), getattr(image, name)
        assert mine == theirs or (
            name == "colliding" and {k: set(v) for k, v in mine.items()} == {k: set(v) for k, v in theirs.items()}
        )
