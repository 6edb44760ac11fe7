"""StreamsGroupTopologyDescriptionUpdate, API 93: version 0, flexible from 0."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class TopologyDescriptionNode(Struct):
    """An element of ``TopologyDescriptionSubtopology.nodes``."""

    name: str = field(types.string, default="")
    node_type: int = field(types.int8, default=0)
    source_topics: tuple[str, ...] = field(types.array(types.string), default=())
    sink_topic: str | None = field(types.string, nullable="0+", default=None)
    stores: tuple[str, ...] = field(types.array(types.string), default=())
    successors: tuple[str, ...] = field(types.array(types.string), default=())


class TopologyDescriptionSubtopology(Struct):
    """An element of ``TopologyDescription.subtopologies``."""

    subtopology_id: str = field(types.string, default="")
    nodes: tuple[TopologyDescriptionNode, ...] = field(types.array(TopologyDescriptionNode), default=())


class TopologyDescriptionGlobalStore(Struct):
    """An element of ``TopologyDescription.global_stores``."""

    source: TopologyDescriptionNode = field(TopologyDescriptionNode, default=TopologyDescriptionNode())
    processor: TopologyDescriptionNode = field(TopologyDescriptionNode, default=TopologyDescriptionNode())


class TopologyDescription(Struct):
    """The value of ``StreamsGroupTopologyDescriptionUpdateRequest.topology_description``."""

    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = field(
        types.array(TopologyDescriptionSubtopology), default=()
    )
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = field(
        types.array(TopologyDescriptionGlobalStore), default=()
    )


class StreamsGroupTopologyDescriptionUpdateRequest(Message, kind="request", api_key=93, versions="0", flexible="0+"):
    """Request of API 93, version 0."""

    group_id: str = field(types.string, default="")
    member_id: str = field(types.string, default="")
    topology_epoch: int = field(types.int32, default=0)
    topology_description: TopologyDescription = field(TopologyDescription, default=TopologyDescription())


class StreamsGroupTopologyDescriptionUpdateResponse(Message, kind="response", api_key=93, versions="0", flexible="0+"):
    """Response of API 93, version 0."""

    throttle_time_ms: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)
    error_message: str | None = field(types.string, nullable="0+", default=None)
