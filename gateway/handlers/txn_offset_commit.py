"""TxnOffsetCommit (API 28), versions 0 to 5: commit a group's offsets with a transaction (KIP-98, KIP-447).

Partitions that do not exist are refused here, as in Kafka's API layer. The group's coordinator handles the others, once
the transaction's coordinator has verified that the group's offsets are in the transaction, or, from version 5 on, has
added them to it (KIP-890).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from odradek.coordinator.contract import Producer
from odradek.coordinator.transactions.add import ProducerIdentity
from odradek.gateway.coordinators.groups import OFFSETS_TOPIC
from odradek.gateway.handling.coordinators import answer_of_coordinator
from odradek.gateway.server.context import RequestContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from odradek.coordinator.groups.offsets.prepared import Prepared

REQUEST: Final = TxnOffsetCommitRequest
LOADING_SINCE: Final = 2
"""Producers of older versions crash at COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_SINCE: Final = 4
"""From this version on, producers know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE: Final = 5
"""From this version on, producers follow transaction.version 2."""

_Codes = dict[tuple[str, int], int]


async def handle(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Commit the offsets of existing partitions; the results are in the order of the request."""
    ctx.will_answer(sum([len(topic.partitions) for topic in request.topics]))
    known = [await _known(ctx, topic) for topic in request.topics]
    accepted = replace(request, topics=tuple([topic for topic in known if topic.partitions]))
    if request.topics and not accepted.topics:
        return await ctx.built(lambda: _answer(request, {}))
    reply = await _commit(ctx, accepted)
    if isinstance(reply, ErrorCode):
        return await ctx.built(lambda: _answer(request, _all(accepted, _for_version(reply, ctx.api_version))))
    return await ctx.built(lambda: _answer(request, _codes(reply)))


async def _commit(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | ErrorCode:
    producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)

    adds_partition = ctx.api_version >= ADDS_PARTITIONS_SINCE
    transactions = ctx.services.transactions

    async def verify(partitions: Sequence[int]) -> Mapping[int, ErrorCode]:
        ask = transactions.add_for_write if adds_partition else transactions.verify
        errors = await ask(producer, {OFFSETS_TOPIC: frozenset(partitions)})
        return {index: error for (_, index), error in errors.items()}

    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    count = sum([len(topic.partitions) for topic in request.topics])
    prepared = await ctx.services.groups.prepared(count, lambda now_ms: _prepared(request, now_ms))
    decided = ctx.services.groups.call_in_transaction(
        request.group_id,
        Producer(request.producer_id, request.producer_epoch),
        verify,
        lambda shard, token, now_ms: shard.txn_offset_commit(request, ctx.client_info(), token, now_ms, prepared),
        TxnOffsetCommitResponse,
        adds_partition=adds_partition,
    )
    return await answer_of_coordinator(decided, lambda error: error)


def _prepared(request: TxnOffsetCommitRequest, now_ms: int) -> "Prepared | None":
    """Encode the records in a worker thread, which also imports the groups' decision code."""
    from odradek.coordinator.groups.offsets.prepared import prepare

    return prepare(request, now_ms)


def _for_version(error: ErrorCode, api_version: int) -> ErrorCode:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error


async def _known(ctx: RequestContext, topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitRequestTopic:
    await ctx.take_turns()
    image = ctx.services.metadata.image.topic(topic.name)
    if image is None:
        return replace(topic, partitions=())
    count = len(image.partitions)
    existing = tuple([part for part in topic.partitions if 0 <= part.partition_index < count])
    return replace(topic, topic_id=image.topic_id, partitions=existing)


def _all(request: TxnOffsetCommitRequest, error: ErrorCode) -> _Codes:
    return {(topic.name, part.partition_index): error for topic in request.topics for part in topic.partitions}


def _codes(response: TxnOffsetCommitResponse) -> _Codes:
    return {
        (topic.name, part.partition_index): part.error_code for topic in response.topics for part in topic.partitions
    }


def _answer(request: TxnOffsetCommitRequest, codes: _Codes) -> TxnOffsetCommitResponse:
    def answer(topic: str, part: TxnOffsetCommitRequestPartition) -> TxnOffsetCommitResponsePartition:
        code = codes.get((topic, part.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)

    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name, partitions=tuple([answer(topic.name, part) for part in topic.partitions])
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=tuple(topics))
