"""Error responses made from the schemas: of every API and version, each is one that a client can decode."""

from uuid import UUID

import pytest

from odradek.gateway.testing.kit.error_replies import (
    Selection,
    failed,
    joined,
    named,
    names_topics,
    place_of,
    places,
    replaced,
    request_type,
    response_type,
    with_error,
    without,
)
from odradek.gateway.testing.kit.names import api_named, error_named, name_of_api
from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.schema.codec import decode_exact, encode

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOPIC_ID = UUID(int=7)
SCALARS = {"bool": True, "float64": 1.0, "uuid": TOPIC_ID, "string": "t", "bytes": b"b", "records": b""}
SERVED = [
    (api, version)
    for api, (low, high) in ADVERTISED.items()
    for version in range(max(low, request_type(api).__message__.versions.first), high + 1)
]


def selected(topic=None, partition=None):
    return Selection(topic, partition, {TOPIC_ID: "t"}.get)


def sample(cls, version):
    """A message with one item in each array."""
    return cls(**{spec.name: value(spec.type, version) for spec in cls.__fields__ if version in spec.versions})


def value(kind, version):
    if kind.element is not None:
        return (value(kind.element, version),)
    return sample(kind.struct, version) if kind.struct is not None else SCALARS.get(kind.name, 1)


def leaves(message, place):
    if not place:
        return [message]
    return [leaf for item in getattr(message, place[0]) for leaf in leaves(item, place[1:])]


def error_of(item):
    return getattr(item, "error_code", None) or getattr(item, "partition_error_code", None)


def carried(api, version, response):
    """The response as a client decodes it."""
    return decode_exact(response_type(api), version, encode(response, version))


@pytest.mark.parametrize(("api", "version"), SERVED, ids=lambda each: getattr(each, "name", each))
def test_every_response_can_carry_an_error(api, version):
    place = place_of(api, version, ERROR, selected())
    request = sample(request_type(api), version)
    if place:
        response = failed(api, place, request, version, ERROR, selected())
    else:
        response = with_error(api, request, version, ERROR)
    items = leaves(carried(api, version, response), place)
    assert [error_of(each) for each in items] == [ERROR] * max(1, len(items))


WITH_TOPICS = [
    each
    for each in SERVED
    if names_topics(request_type(each[0])) and place_of(*each, ERROR, selected("t")) and each[0] is not ApiKey.METADATA
]


@pytest.mark.parametrize(("api", "version"), WITH_TOPICS, ids=lambda each: getattr(each, "name", each))
def test_only_the_selected_topic_fails(api, version):
    request = sample(request_type(api), version)
    assert list(named(request, version))
    hit, other = selected("t"), selected("other")
    place = place_of(api, version, ERROR, hit)
    response = carried(api, version, failed(api, place, request, version, ERROR, hit))
    assert [error_of(each) for each in leaves(response, place)] == [ERROR]
    assert without(api, place, request, version, hit) is None
    assert failed(api, place, request, version, ERROR, other) is None
    assert without(api, place, request, version, other) == request


def test_the_topics_of_most_apis_can_be_selected():
    assert {api for api, _ in WITH_TOPICS} >= {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
    }


def test_apis_of_groups_name_no_topics():
    for api in (ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.DESCRIBE_GROUPS, ApiKey.INIT_PRODUCER_ID):
        assert not names_topics(request_type(api))


def test_a_produce_is_split_into_what_fails_and_what_does_not():
    parts = tuple(PartitionProduceData(index=index, records=b"") for index in (0, 1))
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=tuple(TopicProduceData(name=name, partition_data=parts) for name in "ab")
    )
    only = selected("b", 1)
    place = place_of(ApiKey.PRODUCE, 9, ERROR, only)
    rest = without(ApiKey.PRODUCE, place, request, 9, only)
    assert [(topic.name, [part.index for part in topic.partition_data]) for topic in rest.topic_data] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]
    [topic] = failed(ApiKey.PRODUCE, place, request, 9, ERROR, only).responses
    [part] = topic.partition_responses
    assert (topic.name, part.index, part.error_code, part.base_offset) == ("b", 1, ERROR, -1)


def test_failed_items_join_those_of_the_same_topic():
    def response(*partitions, error=ErrorCode.NONE):
        parts = tuple(OffsetCommitResponsePartition(partition_index=each, error_code=error) for each in partitions)
        return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=parts),))

    [topic] = joined(("topics", "partitions"), response(0), response(1, error=ERROR), 8).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, 0), (1, ERROR)]


def test_a_topic_is_selected_by_its_id():
    part = OffsetCommitRequestPartition(partition_index=0)
    request = OffsetCommitRequest(
        topics=(OffsetCommitRequestTopic(topic_id=TOPIC_ID, partitions=(part,)), OffsetCommitRequestTopic())
    )
    response = failed(ApiKey.OFFSET_COMMIT, ("topics", "partitions"), request, 10, ERROR, selected("t"))
    assert [topic.topic_id for topic in response.topics] == [TOPIC_ID]


def test_errors_of_a_fetch_are_those_of_its_partitions_or_of_its_session():
    assert place_of(ApiKey.FETCH, 12, ERROR, selected()) == ("responses", "partitions")
    assert place_of(ApiKey.FETCH, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, selected()) == ()
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(partition=3),)),))
    response = failed(ApiKey.FETCH, ("responses", "partitions"), request, 12, ERROR, selected())
    [part] = response.responses[0].partitions
    assert (part.partition_index, part.error_code, part.high_watermark, part.records) == (3, ERROR, -1, ())


def test_selected_items_are_replaced_in_a_response():
    parts = tuple(MetadataResponsePartition(partition_index=each, leader_id=1, replica_nodes=(1,)) for each in (0, 1))
    response = MetadataResponse(controller_id=5, topics=(MetadataResponseTopic(name="t", partitions=parts),))
    place = place_of(ApiKey.METADATA, 12, ERROR, selected("t", 1))
    changed = replaced(place, response, 12, ErrorCode.LEADER_NOT_AVAILABLE, selected("t", 1))
    assert changed.controller_id == 5
    [topic] = changed.topics
    assert [(part.error_code, part.leader_id) for part in topic.partitions] == [(0, 1), (5, -1)]


def test_selected_items_are_removed_from_a_response_with_their_topic():
    def response(*names):
        empty = FetchableTopicResponse().partitions
        assert empty == ()
        [part] = failed(
            ApiKey.FETCH,
            ("responses", "partitions"),
            FetchRequest(topics=(FetchTopic(topic="t", partitions=(FetchPartition(),)),)),
            12,
            ERROR,
            selected(),
        ).responses
        topics = tuple(FetchableTopicResponse(topic=name, partitions=part.partitions) for name in names)
        return FetchResponse(session_id=3, responses=topics)

    rest = replaced(("responses", "partitions"), response("t", "u"), 12, None, selected("t"))
    assert rest == response("u")
    assert replaced(("responses", "partitions"), response("t"), 12, None, selected("t")) == response()


def test_all_places_are_found():
    assert places(response_type(ApiKey.METADATA), 13) == ((), ("topics",), ("topics", "partitions"))


@pytest.mark.parametrize("api", ADVERTISED, ids=lambda api: api.name)
def test_apis_have_kafkas_names(api):
    assert api_named(name_of_api(api)) is api
    assert request_type(api).__name__ == f"{name_of_api(api)}Request"


def test_a_wrong_name_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"no API 'produce': did you mean Produce"):
        api_named("produce")
    with pytest.raises(ValueError, match=r"no error 'NOT_LEADER': did you mean .*NOT_LEADER_OR_FOLLOWER"):
        error_named("NOT_LEADER")
    with pytest.raises(ValueError, match="no error 'NONE'"):
        error_named("NONE")
