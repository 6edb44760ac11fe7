"""AddPartitionsToTxn (API 24), versions 0 to 5: a producer adds partitions to its transaction (KIP-98).

From version 4 on it is a request of brokers, for many transactions at once (KIP-890): to add partitions that a producer
of transaction.version 2 writes to, or to *verify* that they are in the transaction. While the markers of the previous
transaction are being written, the result is CONCURRENT_TRANSACTIONS: the producer then retries what it was writing.
"""

from collections.abc import Sequence
from typing import Final

from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.coordinator.transactions.version import PLAIN
from odradek.gateway.handling.coordinators import answer_of_coordinator, fencing_error
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

REQUEST: Final = AddPartitionsToTxnRequest
FENCED_SINCE: Final = 2
BATCHED_SINCE: Final = 4

_Codes = dict[tuple[str, int], ErrorCode]


async def handle(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add all partitions of a transaction, or none if one of them does not exist; the transactions in order."""
    if ctx.api_version < BATCHED_SINCE:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await _codes(ctx, only)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(only.topics, codes))
    results = [
        AddPartitionsToTxnResult(
            transactional_id=each.transactional_id,
            topic_results=_results(each.topics, await _codes(ctx, each)),
        )
        for each in request.transactions
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


async def _codes(ctx: RequestContext, asked: AddPartitionsToTxnTransaction) -> _Codes:
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    codes: _Codes = {partition: await _existence(ctx, *partition) for partition in partitions}
    if any(codes.values()):
        return {partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, code in codes.items()}
    return await answer_of_coordinator(_answers(ctx, asked), lambda error: dict.fromkeys(partitions, error))


async def _existence(ctx: RequestContext, topic: str, index: int) -> ErrorCode:
    await ctx.take_turns()
    image = ctx.services.metadata.image.topic(topic)
    exists = image is not None and 0 <= index < len(image.partitions)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _answers(ctx: RequestContext, asked: AddPartitionsToTxnTransaction) -> _Codes:
    producer = ProducerIdentity(asked.transactional_id, asked.producer_id, asked.producer_epoch)
    united: dict[str, set[int]] = {}
    for topic in asked.topics:
        united.setdefault(topic.name, set()).update(topic.partitions)
    partitions = {name: frozenset(indexes) for name, indexes in united.items()}
    if asked.verify_only:
        return dict(await ctx.services.transactions.look_up(producer, partitions))
    transactions = ctx.services.transactions
    if ctx.api_version >= BATCHED_SINCE:
        error = await transactions.add_at_once(producer, partitions)
    else:
        error = await transactions.add_partitions(producer, partitions, PLAIN)
    code = fencing_error(error, ctx.api_version, FENCED_SINCE)
    return {(topic, index): code for topic, indexes in partitions.items() for index in indexes}


def _results(topics: Sequence[AddPartitionsToTxnTopic], codes: _Codes) -> tuple[AddPartitionsToTxnTopicResult, ...]:
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
        for topic in topics
    ]
    return tuple(results)
