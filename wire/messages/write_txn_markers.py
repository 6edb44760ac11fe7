"""WriteTxnMarkers, API 27: versions 1 to 2, flexible from 1."""

from __future__ import annotations

from odradek.wire.schema import types
from odradek.wire.schema.schema import Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    """An element of ``WritableTxnMarker.topics``."""

    name: str = field(types.string, default="")
    partition_indexes: tuple[int, ...] = field(types.array(types.int32), default=())


class WritableTxnMarker(Struct):
    """An element of ``WriteTxnMarkersRequest.markers``."""

    producer_id: int = field(types.int64, default=0)
    producer_epoch: int = field(types.int16, default=0)
    transaction_result: bool = field(types.boolean, default=False)
    topics: tuple[WritableTxnMarkerTopic, ...] = field(types.array(WritableTxnMarkerTopic), default=())
    coordinator_epoch: int = field(types.int32, default=0)
    transaction_version: int = field(types.int8, versions="2+", ignorable=True, default=0)


class WriteTxnMarkersRequest(Message, kind="request", api_key=27, versions="1-2", flexible="1+"):
    """Request of API 27, versions 1 to 2."""

    markers: tuple[WritableTxnMarker, ...] = field(types.array(WritableTxnMarker), default=())


class WritableTxnMarkerPartitionResult(Struct):
    """An element of ``WritableTxnMarkerTopicResult.partitions``."""

    partition_index: int = field(types.int32, default=0)
    error_code: int = field(types.int16, default=0)


class WritableTxnMarkerTopicResult(Struct):
    """An element of ``WritableTxnMarkerResult.topics``."""

    name: str = field(types.string, default="")
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = field(
        types.array(WritableTxnMarkerPartitionResult), default=()
    )


class WritableTxnMarkerResult(Struct):
    """An element of ``WriteTxnMarkersResponse.markers``."""

    producer_id: int = field(types.int64, default=0)
    topics: tuple[WritableTxnMarkerTopicResult, ...] = field(types.array(WritableTxnMarkerTopicResult), default=())


class WriteTxnMarkersResponse(Message, kind="response", api_key=27, versions="1-2", flexible="1+"):
    """Response of API 27, versions 1 to 2."""

    markers: tuple[WritableTxnMarkerResult, ...] = field(types.array(WritableTxnMarkerResult), default=())
