"""An idempotent producer of one partition over wire messages, with or without transactions.

It writes given batches unchanged, so that all timestamps are kept; client libraries replace 0 by the current time. One
request is in flight at a time, which keeps the order; a retry has the same sequence, and is not stored twice.
"""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import LATEST, TopicPartition
from odradek.pipeline.wire_client import WireClient, in_parts
from odradek.pipeline.writing.encoding import Producer, Row, encode
from odradek.pipeline.writing.transactions import check, idempotent
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.wire.records.batch import increment_sequence
from odradek.wire.schema.types import Buffer

PRODUCE_TIMEOUT_MS: Final = 30_000
NEWEST_PRODUCE: Final = 11
"""Later versions add the partition to the transaction implicitly (KIP-890), if the cluster's transaction.version is 2.
"""


class TooLargeError(PipelineError):
    """The broker refuses a batch of this size."""


class PartitionProducer:
    """Writes to one partition. Raises PipelineError for a refusal of the broker, or a timeout. With `transactional_id`,
    `producer` writes in the transaction that its owner has begun; without, records are visible at once.
    """

    def __init__(
        self,
        client: WireClient,
        place: TopicPartition,
        codec: int = 0,
        producer: Producer | None = None,
        transactional_id: str | None = None,
    ) -> None:
        self._client, self._place, self._codec = client, place, codec
        self._transactional_id = transactional_id
        self._producer = producer or idempotent(client)

    def append(self, rows: Sequence[Row]) -> int:
        """Write the rows as one batch, and return its first offset. Raises TooLargeError if it is too large."""
        return self.append_batch(len(rows), lambda producer: [encode(rows, self._codec, producer, dense=True)])

    def append_batch(self, count: int, encoded: Callable[[Producer], Sequence[Buffer]]) -> int:
        """As `append`, with a batch of `count` records that the given function makes, in parts, from producer and
        sequence.
        """
        batch = encoded(self._producer)
        base_offset = self._client.repeated(lambda: self._produce(batch))
        sequence = increment_sequence(self._producer.sequence, count)
        self._producer = self._producer._replace(sequence=sequence)
        return base_offset

    def append_parted(self, rows: Sequence[Row]) -> None:
        """Write the rows as one batch, or as several if the broker refuses its size."""
        try:
            self.append(rows)
        except TooLargeError:
            if len(rows) == 1:
                raise
            middle = len(rows) // 2
            self.append_parted(rows[:middle])
            self.append_parted(rows[middle:])

    def _produce(self, batch: Sequence[Buffer]) -> int:
        topic, index = self._place
        (leader,) = self._client.by_leader([self._place])
        data = TopicProduceData(
            name=topic,
            topic_id=self._client.topic(topic).topic_id,
            partition_data=(PartitionProduceData(index=index, records=in_parts(batch)),),
        )
        request = ProduceRequest(
            transactional_id=self._transactional_id, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=(data,)
        )
        answer = self._client.request(request, ProduceResponse, leader, newest=NEWEST_PRODUCE)
        part = answer.responses[0].partition_responses[0]
        if part.error_code in {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}:
            raise TooLargeError(
                f"{topic}-{index} takes no batch of {sum(map(len, batch)):,} bytes: raise its max.message.bytes"
            )
        check(part.error_code, f"{topic}-{index}", part.error_message)
        return part.base_offset


def end_offset(client: WireClient, place: TopicPartition) -> int:
    """Return the partition's high watermark."""
    return client.list_offsets([place], LATEST)[place]
