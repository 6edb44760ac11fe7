"""Transactions over wire messages: begun and ended by one owner, with any number of producers of partitions.

The owner has the transactional id. Its producer id and epoch may be passed to other processes, each of which writes to
a partition of its own. Committed offsets of a group can be part of a transaction, as with Kafka's clients.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import BrokerError, WireClient
from odradek.pipeline.wire_socket import ConnectionLostError, error_name
from odradek.pipeline.writing.encoding import Producer
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.wire.schema.schema import Message

M = TypeVar("M", bound=Message)

DEFAULT_TIMEOUT_MS: Final = 60_000
GROUP_KEY, TRANSACTION_KEY = 0, 1
NEWEST_FIND, NEWEST_INIT, NEWEST_ADD, NEWEST_OFFSETS, NEWEST_END = 3, 4, 3, 3, 4
"""The newest versions in which a client adds partitions to transactions explicitly; later ones require
transaction.version 2 of the cluster.
"""
_SHORT_PAUSES, _SHORT_PAUSE_S = 50, 0.002
"""The number and length of the first pauses for CONCURRENT_TRANSACTIONS: the previous transaction usually completes
within milliseconds.
"""
_PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Temporary errors, in addition to those that the client retries."""


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise BrokerError for an error code; for a temporary error with REQUEST_TIMED_OUT, which the client retries."""
    if code:
        words = f"{what}: {error_name(code)}{f' ({message})' if message else ''}"
        raise BrokerError(ErrorCode.REQUEST_TIMED_OUT if code in _PASSING else code, words)


def idempotent(client: WireClient) -> Producer:
    """Allocate a producer id for an idempotent producer without transactions."""

    def attempt() -> Producer:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        answer = client.request(request, InitProducerIdResponse, newest=NEWEST_INIT)
        check(answer.error_code, "a producer id")
        return Producer(answer.producer_id, answer.producer_epoch, 0)

    return client.repeated(attempt)


class Transactions:
    """The transactions of one transactional id, one at a time. Methods raise PipelineError.

    The constructor fences every earlier owner of the id, and aborts its open transaction. A transaction that lasts
    longer than `timeout_ms` is aborted by the broker.
    """

    def __init__(self, client: WireClient, transactional_id: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        self.transactional_id = transactional_id
        self._client, self._timeout_ms = client, timeout_ms
        self._nodes: dict[int, int] = {}
        self.producer = client.repeated(self._init)

    def begin(self, places: Iterable[TopicPartition]) -> None:
        """Begin a transaction with these partitions in it: each gets a marker when it ends, even without records."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in places:
            by_topic.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=tuple(
                [AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in by_topic.items()]
            ),
        )
        self._client.repeated(lambda: self._add(request))

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Add committed offsets of a group to the transaction."""
        added = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            part = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            topics.setdefault(topic, []).append(part)
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=tuple([TxnOffsetCommitRequestTopic(name=name, partitions=tuple(p)) for name, p in topics.items()]),
        )
        self._client.repeated(lambda: self._send_offsets(added, commit, group))

    def end(self, *, committed: bool) -> None:
        """Commit or abort the transaction. Its markers may be written after the return."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=committed,
        )
        self._client.repeated(lambda: self._check(self._ask(request, EndTxnResponse, NEWEST_END).error_code))

    def _init(self) -> Producer:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms)
        answer = self._ask(request, InitProducerIdResponse, NEWEST_INIT)
        self._check(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch, 0, transactional=True)

    def _add(self, request: AddPartitionsToTxnRequest) -> None:
        for _ in range(_SHORT_PAUSES):
            codes = self._added(request)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes:
                break
            time.sleep(_SHORT_PAUSE_S)
        else:
            codes = self._added(request)
        for code in codes:
            self._check(code)

    def _added(self, request: AddPartitionsToTxnRequest) -> list[int]:
        answer = self._ask(request, AddPartitionsToTxnResponse, NEWEST_ADD)
        return [
            part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        ]

    def _send_offsets(self, added: AddOffsetsToTxnRequest, commit: TxnOffsetCommitRequest, group: str) -> None:
        self._check(self._ask(added, AddOffsetsToTxnResponse, NEWEST_OFFSETS).error_code)
        answer = self._ask(commit, TxnOffsetCommitResponse, NEWEST_OFFSETS, GROUP_KEY, group)
        for topic in answer.topics:
            for part in topic.partitions:
                self._check(part.error_code)

    def _ask(
        self, request: Message, response: type[M], newest: int, kind: int = TRANSACTION_KEY, key: str | None = None
    ) -> M:
        """Send a request to the coordinator of the transactional id, or of a group."""
        if kind not in self._nodes:
            self._nodes[kind] = self._find_coordinator(kind, key or self.transactional_id)
        try:
            return self._client.request(request, response, self._nodes[kind], newest=newest)
        except ConnectionLostError:
            self._nodes.clear()
            raise

    def _find_coordinator(self, kind: int, key: str) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = self._client.request(request, FindCoordinatorResponse, newest=NEWEST_FIND)
        self._check(answer.error_code, answer.error_message)
        self._client.topics([])  # updates the addresses of the brokers
        return answer.node_id

    def _check(self, code: int, message: str | None = None) -> None:
        if code in _PASSING:
            self._nodes.clear()
        check(code, f"transactional id {self.transactional_id!r}", message)
