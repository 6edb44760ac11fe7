"""Adds the current leader (KIP-951) to responses to requests that went to the wrong broker or have an old epoch.

With it the client continues at once; without it, the client would first have to request metadata.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from odradek.coordinator.metadata.image.image import NO_LEADER, BrokerImage, ListenerImage, MetadataImage
from odradek.partitions.results import NO_LEADER_EPOCH
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.wire.messages import fetch, produce

PRODUCE_SINCE: Final = 10
FETCH_SINCE: Final = 16
"""The versions of the two APIs from which on responses contain leaders."""

IN_PRODUCE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})
IN_FETCH: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def fetch_with_leaders(
    response: fetch.FetchResponse, api_version: int, image: MetadataImage, listener: str
) -> fetch.FetchResponse:
    """The response, with the leaders of partitions whose error requires it, and their addresses on `listener`."""
    if api_version < FETCH_SINCE:
        return response
    from odradek.wire.messages import fetch

    hints = _Hints(image, listener)

    def led(topic: str, part: fetch.PartitionData) -> fetch.PartitionData:
        if part.error_code not in IN_FETCH:
            return part
        leader_id, leader_epoch = hints.leader(topic, part.partition_index)
        return replace(part, current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch))

    topics = tuple(
        [
            replace(topic, partitions=tuple([led(topic.topic, part) for part in topic.partitions]))
            for topic in response.responses
        ]
    )
    endpoints = [
        fetch.NodeEndpoint(node_id=broker.id, host=at.host, port=at.port, rack=broker.rack)
        for broker, at in hints.nodes.values()
    ]
    return replace(response, responses=topics, node_endpoints=tuple(endpoints))


def produce_with_leaders(
    response: produce.ProduceResponse, api_version: int, image: MetadataImage, listener: str
) -> produce.ProduceResponse:
    """The same for Produce. Costs almost nothing if no error requires it."""
    if api_version < PRODUCE_SINCE or not any(
        part.error_code in IN_PRODUCE for topic in response.responses for part in topic.partition_responses
    ):
        return response
    from odradek.wire.messages import produce

    hints = _Hints(image, listener)

    def led(topic: str, part: produce.PartitionProduceResponse) -> produce.PartitionProduceResponse:
        if part.error_code not in IN_PRODUCE:
            return part
        leader_id, leader_epoch = hints.leader(topic, part.index)
        return replace(part, current_leader=produce.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch))

    topics = tuple(
        [
            replace(topic, partition_responses=tuple([led(topic.name, part) for part in topic.partition_responses]))
            for topic in response.responses
        ]
    )
    endpoints = [
        produce.NodeEndpoint(node_id=broker.id, host=at.host, port=at.port, rack=broker.rack)
        for broker, at in hints.nodes.values()
    ]
    return replace(response, responses=topics, node_endpoints=tuple(endpoints))


class _Hints:
    """The leaders in one response. `nodes` has those that are unfenced and reachable, with their addresses."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self._image = image
        self._listener = listener
        self.nodes: dict[int, tuple[BrokerImage, ListenerImage]] = {}

    def leader(self, topic: str, index: int) -> tuple[int, int]:
        """The id and epoch of a partition's leader, -1 if unknown."""
        part = self._image.partition(topic, index)
        if part is None:
            return NO_LEADER, NO_LEADER_EPOCH
        broker = self._image.brokers.get(part.leader)
        endpoint = None if broker is None or broker.fenced else broker.listeners.get(self._listener)
        if broker is not None and endpoint is not None:
            self.nodes[broker.id] = (broker, endpoint)
        return part.leader, part.leader_epoch
