"""An idempotent producer over our own wire messages: what is sent again after a crash is stored once."""

import zlib
from collections.abc import Sequence
from itertools import count
from typing import Final

from odradek.pipeline.demo.flights import Flight
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient, check, in_parts
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch

ALL_REPLICAS: Final = -1
TIMEOUT_MS: Final = 10_000
BY_NAME: Final = 12
"""The newest version of Produce in which topics have names."""


class Producer:
    """Sends the records of one topic, a request at a time. For one thread."""

    def __init__(self, client: WireClient, topic: str, partitions: int) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._sequences = dict.fromkeys(range(partitions), 0)
        self._keyless = count()
        answer = client.repeated(self._identify)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def _identify(self) -> InitProducerIdResponse:
        answer = self._client.request(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        check(answer.error_code, "a producer's id")
        return answer

    def send(self, rows: Sequence[Flight]) -> None:
        """Send records, and return when the broker has acknowledged that they are on disk.

        Lost connections are made again and the same batches sent again; their numbers tell the broker which of them it
        has. Raises PipelineError after the client's time limit.
        """
        chosen: dict[int, list[SimpleRecord]] = {}
        for row in rows:
            chosen.setdefault(self._partition(row.key), []).append(SimpleRecord(row.key, row.value, row.time_ms))
        batches = {index: self._batch(index, records) for index, records in chosen.items()}
        self._client.repeated(lambda: self._send(batches))
        for index, records in chosen.items():
            self._sequences[index] += len(records)

    def _partition(self, key: bytes | None) -> int:
        return (next(self._keyless) if key is None else zlib.crc32(key)) % self._partitions

    def _batch(self, index: int, records: Sequence[SimpleRecord]) -> bytes:
        return build_batch(
            records, producer_id=self._id, producer_epoch=self._epoch, base_sequence=self._sequences[index]
        )

    def _send(self, batches: dict[int, bytes]) -> None:
        places = [TopicPartition(self._topic, index) for index in batches]
        for leader, led in self._client.by_leader(places).items():
            parts = [
                PartitionProduceData(index=place.partition, records=in_parts([batches[place.partition]]))
                for place in led
            ]
            data = TopicProduceData(name=self._topic, partition_data=tuple(parts))
            request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=TIMEOUT_MS, topic_data=(data,))
            for topic in self._client.request(request, ProduceResponse, leader, newest=BY_NAME).responses:
                for part in topic.partition_responses:
                    check(part.error_code, f"writing to {topic.name}-{part.index}")
