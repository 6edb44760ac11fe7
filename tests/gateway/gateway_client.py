"""A raw client for tests of the gateway: one blocking socket, any request in any version, any bytes."""

import socket
import struct
from collections.abc import Sequence
from typing import Self

from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.frames import LENGTH_BYTES
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.records.batch import BatchHeader, check_crc, iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import Record, read_records
from odradek.wire.schema.schema import Message

TIMEOUT_S = 30
"""Time-out of socket operations; only a failing test waits that long."""


BY_NAME = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}
"""The newest versions with topic names, for APIs whose newer versions use topic ids."""


class RawClient:
    """One connection. `peer` is its name in the broker's log."""

    def __init__(self, address: tuple[str, int], client_id: str = "raw", receive_buffer: int | None = None) -> None:
        self.client_id = client_id
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = self._socket.getsockname()
        self.peer = f"{host}:{port}"
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        """Closes the connection with a reset (RST), as after a crash."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(body)) + body)

    def send(self, request: Message, version: int | None = None) -> tuple[ApiKey, int, int]:
        """Sends without waiting; pass the result to `receive`."""
        key = ApiKey(request.__message__.api_key or 0)
        version = BY_NAME.get(key, ADVERTISED[key][1]) if version is None else version
        self._correlation += 1
        self.send_bytes(encode_request(request, version, self._correlation, self.client_id))
        return key, version, self._correlation

    def receive(self, sent: tuple[ApiKey, int, int]):
        key, version, expected = sent
        correlation, response = decode_response(key, version, self.receive_frame())
        assert correlation == expected, "the answer to another request"
        return response

    def call(self, request: Message, version: int | None = None):
        return self.receive(self.send(request, version))

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_bytes(LENGTH_BYTES))
        return self.receive_bytes(size)

    def receive_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            some = self._socket.recv(min(size - len(data), 1 << 20))
            if not some:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += some
        return bytes(data)

    def receive_some(self, size: int) -> int:
        """The number of bytes received; 0 when the broker has closed the connection."""
        try:
            return len(self._socket.recv(size))
        except ConnectionResetError:
            return 0

    def is_closed_by_broker(self) -> bool:
        """Waits for the broker to close the connection; False if it sends data instead."""
        return self.receive_some(1) == 0

    # Common requests

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Creates a topic; config names have underscores for dots."""
        texts = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=texts)
        [result] = self.call(CreateTopicsRequest(topics=(topic,))).topics
        assert result.error_code == 0, result

    def produce(
        self, topic: str, batch: bytes, partition: int = 0, acks: int = -1, version: int | None = None
    ) -> PartitionProduceResponse:
        return only(self.call(produce_request(topic, batch, partition, acks), version))

    def fetch(self, topic: str, offset: int = 0, partition: int = 0, **options) -> PartitionData:
        [answered] = self.call(fetch_request(topic, [(partition, offset)], **options)).responses
        return answered.partitions[0]

    def fetch_all(self, topic: str, partition: int = 0, start: int = 0) -> list[tuple[BatchHeader, list[Record]]]:
        """Every batch from `start` up to the high watermark, with its checksum verified."""
        batches, offset = [], start
        while True:
            part = self.fetch(topic, offset, partition, max_wait_ms=0)
            assert part.error_code == 0, part.error_code
            if offset >= part.high_watermark:
                return batches
            chunk = memoryview(bytes(part.records))
            for header in iter_headers(chunk, allow_partial_tail=True):
                check_crc(chunk, header)
                batches.append((header, list(read_records(chunk, header))))
                offset = header.next_offset

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        return [record.value for _, records in self.fetch_all(topic, partition) for record in records]

    def end_offset(self, topic: str, partition: int = 0, timestamp: int = -1):
        part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))
        [answered] = self.call(request).topics
        assert answered.partitions[0].error_code == 0, answered
        return answered.partitions[0].offset


def batch_of(*values: bytes, timestamp_ms: int = 1_750_000_000_000, key: bytes | None = None, **fields) -> bytes:
    return build_batch([SimpleRecord(key, value, timestamp_ms) for value in values], **fields)


def produce_request(
    topic: str, batch: bytes, partition: int = 0, acks: int = -1, timeout_ms: int = 30_000
) -> ProduceRequest:
    return produce_many([(topic, partition, batch)], acks, timeout_ms)


def produce_many(batches: Sequence[tuple[str, int, bytes]], acks: int = -1, timeout_ms: int = 30_000) -> ProduceRequest:
    topics = tuple(
        TopicProduceData(name=name, partition_data=(PartitionProduceData(index=index, records=memoryview(batch)),))
        for name, index, batch in batches
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def only(response) -> PartitionProduceResponse:
    [topic] = response.responses
    [part] = topic.partition_responses
    return part


def fetch_request(
    topic: str,
    parts: Sequence[tuple[int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
) -> FetchRequest:
    """A Fetch of `(partition, offset)` pairs of one topic."""
    partitions = tuple(
        FetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        for partition, offset in parts
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=(FetchTopic(topic=topic, partitions=partitions),),
    )


def assert_serves(address: tuple[str, int]) -> None:
    """Asserts that a new client gets an answer."""
    with RawClient(address) as client:
        assert client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).error_code == 0
