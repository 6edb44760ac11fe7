"""Limits on how much one request may create; where Kafka has the limit, its answers are those of a real Kafka 4.3.1."""

import pytest
from metadata_shards import ShardUnderTest

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.controller.auto_create import auto_create_topics
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.request_size import MAX_RECORDS, check_create_partitions, check_create_topics
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

PARTITIONS = "Excessively large number of partitions per request."
RECORDS = "Unable to perform excessively large batch operation."
SET = (CreatableTopicConfig(name="retention.ms", value="5"),)


def new(name, partitions, configs=(), assigned=0):
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=(1,)) for index in range(assigned)]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=-1, configs=configs, assignments=tuple(assignments)
    )


def many(name, count):
    return [new(f"{name}{number}", 1) for number in range(count)]


def create(shard, *topics):
    request = CreateTopicsRequest(topics=topics)
    return shard.run(create_topics, request).topics


@pytest.fixture(scope="module")
def shard():
    shard = ShardUnderTest({"num.partitions": "3"})
    create(shard, new("x", 1))
    return shard


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([new("a", 9999)], None),
        ([new("a", 9998, SET)], None),
        ([new("a", 10_000)], RECORDS),
        ([new("a", 9999, SET)], RECORDS),
        ([new("a", 9999), new("b", 1)], RECORDS),
        ([new("a", 9998), new("b", -1)], PARTITIONS),
        ([new("a", 10_001)], PARTITIONS),
        ([new("a", 2**31 - 1)], PARTITIONS),
        ([new("a", 6000), new("b", 6000)], PARTITIONS),
        ([new("x", 10_001), new("y", 1)], PARTITIONS),
        ([new("c!", 10_001), new("c", 1)], PARTITIONS),
        ([new("e", -5), new("f", 10_001)], PARTITIONS),
        ([new("m", -1, assigned=10_001)], PARTITIONS),
        ([new("d", 6000), new("d", 6000), new("dd", 1)], None),
        (many("m", 5000), None),
        ([*many("m", 5000), new("x", 1)], None),
        (many("m", 5001), RECORDS),
        ([*many("bad!", 5000), *many("ok", 1000)], None),
    ],
)
def test_a_request_to_create_topics_is_refused_as_kafka_does(shard, topics, message):
    assert (
        refusal(lambda: check_create_topics(shard.shard.decision_context(0), CreateTopicsRequest(topics=tuple(topics))))
        == message
    )


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([("x", MAX_RECORDS + 1)], None),
        ([("x", MAX_RECORDS + 2)], RECORDS),
        ([("nope", 10**6), ("x", 1)], None),
        ([("x", MAX_RECORDS + 2), ("x", MAX_RECORDS + 2)], None),
    ],
)
def test_a_request_for_more_partitions_is_refused_beyond_as_many_records(shard, counts, message):
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts]
    request = CreatePartitionsRequest(topics=tuple(topics))
    assert refusal(lambda: check_create_partitions(shard.image, request)) == message


def refusal(check):
    try:
        check()
    except RefusedError as refused:
        return refused.message if refused.code is ErrorCode.POLICY_VIOLATION else refused.code
    return None


def test_no_operation_makes_more_partitions_by_any_way():
    shard = ShardUnderTest({"num.partitions": str(MAX_RECORDS + 1)})
    made = shard.run(auto_create_topics, ["a"])
    assert made["a"].code == ErrorCode.POLICY_VIOLATION
    assert [each.error_message for each in create(shard, new("b", 6000), new("c", 6000))] == [None, PARTITIONS]
