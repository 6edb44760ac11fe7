"""A tiny raw Kafka client: fixed, old, non-flexible versions, written by hand with ``struct``.

It shares no code with Odradek's codec, so it can send what neither Odradek nor a real client would.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from compat_tests.error_names import error_name
from compat_tests.processes import wait_for

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, API_VERSIONS, CREATE_TOPICS = 11, 12, 13, 14, 18, 19
INIT_PRODUCER_ID = 22
ELSEWHERE = {"NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION"}
"""Errors of a broker that is not the leader; the names are kafka-python's, old and new."""


class Body:
    """Builds a request body; every method returns self."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, layout: str, *values: int) -> Body:
        self.data += struct.pack(">" + layout, *values)
        return self

    def string(self, text: str | None) -> Body:
        if text is None:
            return self.put("h", -1)
        raw = text.encode()
        self.put("h", len(raw))
        self.data += raw
        return self

    def blob(self, raw: bytes | None) -> Body:
        if raw is None:
            return self.put("i", -1)
        self.put("i", len(raw))
        self.data += raw
        return self


class Reader:
    """Reads a response body in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values

    def one(self, layout: str) -> Any:
        return self.take(layout)[0]

    def string(self) -> str | None:
        size = self.one("h")
        return None if size < 0 else self._bytes(size).decode()

    def blob(self) -> bytes | None:
        size = self.one("i")
        return None if size < 0 else self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def array(self, read: Any) -> list[Any]:
        return [read(self) for _ in range(max(0, self.one("i")))]


class RawConnection:
    """One connection, to the first broker in `bootstrap`; calls are answered in order."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 15.0, client_id: str = "raw") -> None:
        first, *self.others = bootstrap.split(",")
        host, port = first.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._ids = count(1)
        self._client_id = client_id

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, key: int, version: int, body: Body) -> int:
        correlation = next(self._ids)
        header = Body().put("hhi", key, version, correlation).string(self._client_id)
        self.send_bytes(struct.pack(">i", len(header.data) + len(body.data)) + bytes(header.data + body.data))
        return correlation

    def send_bytes(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def receive(self) -> Reader:
        """The next response body. Raises ConnectionResetError if the broker closes the connection instead."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return Reader(self._exactly(size)[4:])

    def call(self, key: int, version: int, body: Body) -> Reader:
        self.send(key, version, body)
        return self.receive()

    def is_closed_by_peer(self) -> bool:
        """Waits for the next input: True if it is the end of the connection, False if it is bytes."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return bytes(data)


@dataclass(frozen=True)
class Batch:
    """The fields of one record batch."""

    values: list[bytes]
    timestamp_ms: int = 1_700_000_000_000
    codec: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    headers: list[tuple[str, bytes]] = field(default_factory=list)

    def encode(self) -> bytes:
        builder = DefaultRecordBatchBuilder(
            2, self.codec, 0, self.producer_id, self.producer_epoch, self.sequence, 10_000_000
        )
        for offset, value in enumerate(self.values):
            builder.append(offset, self.timestamp_ms + offset, None, value, self.headers)
        return bytes(builder.build())


def produce(
    connection: RawConnection,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = 7,
) -> dict[str, Any]:
    """Produce 3-7 to one partition: error name, base offset and log append time."""
    body = Body().string(None).put("hi", acks, 10_000).put("i", 1).string(topic).put("ii", 1, partition).blob(records)
    reader = connection.call(PRODUCE, version, body)
    reader.one("i")
    reader.string()
    _, _, error, offset, append_time = reader.take("iihqq")
    return {"error": error_name(error), "base_offset": offset, "append_time": append_time}


def fetch(
    connection: RawConnection, topic: str, *, partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20
) -> dict[str, Any]:
    """Fetch 4 of one partition by its leader: error name, high watermark and the raw record set."""
    found = _fetched(connection, topic, partition, offset, max_bytes)
    for other in connection.others:
        if found["error"] not in ELSEWHERE:
            break
        with RawConnection(other) as leader:
            found = _fetched(leader, topic, partition, offset, max_bytes)
    return found


def _fetched(connection: RawConnection, topic: str, partition: int, offset: int, max_bytes: int) -> dict[str, Any]:
    body = Body().put("iiiib", -1, 100, 1, 50 << 20, 0).put("i", 1).string(topic)
    body.put("iiqi", 1, partition, offset, max_bytes)
    reader = connection.call(FETCH, 4, body)
    reader.take("ii")
    reader.string()
    _, _, error, high_watermark, _ = reader.take("iihqq")
    reader.array(lambda r: r.take("qq"))
    return {"error": error_name(error), "high_watermark": high_watermark, "records": reader.blob() or b""}


def batch_headers(records: bytes) -> list[dict[str, int]]:
    """The header fields of every whole batch in a record set."""
    found: list[dict[str, int]] = []
    at = 0
    while len(records) - at >= 61:
        base, size, _, magic, _, attributes, delta = struct.unpack_from(">qiibIhi", records, at)
        producer_id, epoch, sequence, number = struct.unpack_from(">qhii", records, at + 43)
        found.append(
            {
                "base_offset": base,
                "magic": magic,
                "codec": attributes & 7,
                "attributes": attributes,
                "last_offset": base + delta,
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "sequence": sequence,
                "count": number,
            }
        )
        at += 12 + size
    return found


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None, replicas: int = 1
) -> str:
    """CreateTopics 2; returns the error name, once the topic's leaders answer."""
    body = Body().put("i", 1).string(name).put("ih", partitions, replicas).put("i", 0)
    body.put("i", len(configs or {}))
    for key, value in (configs or {}).items():
        body.string(key).string(value)
    body.put("ib", 15_000, 0)
    with RawConnection(bootstrap) as connection:
        reader = connection.call(CREATE_TOPICS, 2, body)
        reader.take("ii")
        reader.string()
        error = error_name(reader.one("h"))
    if error == "NONE":
        await_leaders(bootstrap, name, partitions)
    return error


def await_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Returns when the leader of every partition answers. Raises TimeoutError.

    In Kafka that is shortly after the metadata that has the leader. Until then it answers NOT_LEADER_OR_FOLLOWER, and
    what a client then sends again may arrive after its next request.
    """
    brokers = bootstrap.split(",")
    wait_for(lambda: _all_answer(brokers, topic, partitions), f"answers of the leaders of {topic}")


def _all_answer(brokers: list[str], topic: str, partitions: int) -> bool:
    """True if one of the brokers returns each partition's end offset."""
    answered: set[int] = set()
    for broker in brokers:
        with RawConnection(broker) as connection:
            answered |= _answered(connection, topic, partitions)
    return len(answered) == partitions


def _answered(connection: RawConnection, topic: str, partitions: int) -> set[int]:
    """The partitions for which ListOffsets 1 returns the end offset."""
    body = Body().put("ii", -1, 1).string(topic).put("i", partitions)
    for partition in range(partitions):
        body.put("iq", partition, -1)
    reader = connection.call(LIST_OFFSETS, 1, body)
    reader.one("i")
    reader.string()
    ends = reader.array(lambda r: r.take("ihqq"))
    return {index for index, error, _, _ in ends if error_name(error) == "NONE"}


def metadata(connection: RawConnection, names: list[str]) -> dict[str, Any]:
    """Metadata 4 without auto-creation: topic -> error name and partition -> error name."""
    body = Body().put("i", len(names))
    for name in names:
        body.string(name)
    reader = connection.call(METADATA, 4, body.put("b", 0))
    reader.one("i")
    reader.array(lambda r: (r.one("i"), r.string(), r.one("i"), r.string()))
    reader.string()
    reader.one("i")
    return dict(reader.array(_topic))


def _topic(reader: Reader) -> tuple[str | None, dict[str, Any]]:
    error, name, internal = reader.one("h"), reader.string(), reader.one("b")
    partitions = dict(sorted(reader.array(_partition)))
    return name, {"error": error_name(error), "internal": bool(internal), "partitions": partitions}


def _partition(reader: Reader) -> tuple[int, str]:
    error, index, _ = reader.take("hii")
    reader.array(lambda r: r.one("i"))
    reader.array(lambda r: r.one("i"))
    return index, error_name(error)
