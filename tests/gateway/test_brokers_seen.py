"""The brokers and leaders that a client sees depend on its listener, as in Kafka's metadata cache."""

from random import Random
from uuid import UUID

import pytest

from odradek.coordinator.metadata.image.image import BrokerImage, ListenerImage, MetadataImage, PartitionImage
from odradek.gateway.handling.brokers import leader_of, reachable, some_broker
from odradek.wire.errors import ErrorCode


def broker(number: int, *listeners: str, fenced: bool = False) -> BrokerImage:
    at = {name: ListenerImage(name, f"{name.lower()}-{number}", 9000 + number) for name in listeners}
    return BrokerImage(number, number, UUID(int=number), at, fenced=fenced)


IMAGE = MetadataImage(
    brokers={1: broker(1, "IN", "OUT"), 2: broker(2, "IN"), 3: broker(3, "IN", "OUT", fenced=True)},
)


def test_brokers_are_those_that_serve_and_have_the_listener():
    assert {number: each.endpoint.host for number, each in reachable(IMAGE, "IN").items()} == {1: "in-1", 2: "in-2"}
    assert {number: each.endpoint.port for number, each in reachable(IMAGE, "OUT").items()} == {1: 9001}
    assert list(reachable(IMAGE, "IN", fenced=True)) == [1, 2, 3]


def test_any_broker_that_serves_stands_for_the_controller():
    seen = {some_broker(reachable(IMAGE, "IN"), Random(seed).choice) for seed in range(20)}
    assert seen == {1, 2}
    assert some_broker(reachable(IMAGE, "OUT"), Random(0).choice) == 1
    assert some_broker({}, Random(0).choice) == -1


@pytest.mark.parametrize(
    ("listener", "leader", "has_listener_error", "expected"),
    [
        ("IN", 1, True, (ErrorCode.NONE, 1)),
        ("OUT", 2, True, (ErrorCode.LISTENER_NOT_FOUND, -1)),
        ("OUT", 2, False, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        ("IN", 3, True, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
        ("IN", -1, True, (ErrorCode.LEADER_NOT_AVAILABLE, -1)),
    ],
)
def test_a_leader_that_the_client_cannot_use_is_none(listener, leader, has_listener_error, expected):
    part = PartitionImage((1, 2, 3, 4), (1, 2), leader, 5, 6)
    view = leader_of(IMAGE, part, reachable(IMAGE, listener), has_listener_error=has_listener_error)
    assert view[:2] == expected


def test_replicas_that_cannot_be_reached_are_offline():
    part = PartitionImage((1, 2, 3, 4), (1, 2), 1, 5, 6)
    assert leader_of(IMAGE, part, reachable(IMAGE, "IN"), has_listener_error=True).offline == (3, 4)
    assert leader_of(IMAGE, part, reachable(IMAGE, "OUT"), has_listener_error=True).offline == (2, 3, 4)
