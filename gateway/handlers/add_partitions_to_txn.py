"""AddPartitionsToTxn (API 24), versions 0 to 3: a producer says where its transaction will write (KIP-98).

Versions 4 and 5 are for brokers that ask each other; here that is a call inside the process.
"""

from typing import Final

from coordinator.transactions.add import Claim
from gateway.context import RequestContext
from gateway.errors import fencing_error
from gateway.runtime.shards import CoordinatorError
from wire.errors import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

REQUEST: Final = AddPartitionsToTxnRequest
FENCED_SINCE: Final = 2

_Codes = dict[tuple[str, int], ErrorCode]


async def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add all partitions, or none where one of them does not exist."""
    asked = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
    codes: _Codes = {place: await _existence(ctx, *place) for place in asked}
    if any(codes.values()):
        codes = {place: code or ErrorCode.OPERATION_NOT_ATTEMPTED for place, code in codes.items()}
    else:
        codes = dict.fromkeys(asked, await _add(ctx, request))
    return _answer(request, codes)


async def _existence(ctx: RequestContext, topic: str, index: int) -> ErrorCode:
    await ctx.take_turns()
    image = ctx.services.metadata.image.topic(topic)
    exists = image is not None and 0 <= index < len(image.partitions)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _add(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> ErrorCode:
    claim = Claim(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    partitions: dict[str, frozenset[int]] = {}
    for topic in request.v3_and_below_topics:
        partitions[topic.name] = partitions.get(topic.name, frozenset()) | frozenset(topic.partitions)
    try:
        error = await ctx.services.transactions.add_partitions(claim, partitions)
    except CoordinatorError as unavailable:
        return unavailable.error
    return fencing_error(error, ctx.api_version, FENCED_SINCE)


def _answer(request: AddPartitionsToTxnRequest, codes: _Codes) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                [
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name, index]
                    )
                    for index in topic.partitions
                ]
            ),
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(results))
