"""Producers on plain sockets that send the same Produce request again and again: many small ones, or few large ones.

Each connection has one request in flight and sends the next after the answer, like a producer that waits for every
acknowledgement.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.stats import percentile
from odradek.wire.headers import encode_request
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch

PRODUCE_VERSION = 9
WARM_UP_SHARE = 0.2
NOT_YET = frozenset({3, 5, 6})
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER."""


def produce_frame(topic: str, partition: int, *, records: int, size_bytes: int) -> bytes:
    """A Produce request of one batch, acks=all, without a producer id, so that it can be sent repeatedly."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([SimpleRecord(None, os.urandom(size_bytes), timestamp_ms=now_ms) for _ in range(records)])  # noqa: TID251
    data = PartitionProduceData(index=partition, records=batch)
    topics = (TopicProduceData(name=topic, partition_data=(data,)),)
    return encode_request(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics), PRODUCE_VERSION, 1, "bench")


class Client:
    """One connection with one request in flight. Raises SystemExit if an answer is an error or the broker closes it."""

    def __init__(self, bootstrap: str, topic: str, partition: int, *, records: int, size_bytes: int) -> None:
        host, port = bootstrap.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frame = produce_frame(topic, partition, records=records, size_bytes=size_bytes)
        self.frame_bytes = len(self._frame)
        # length, correlation id, tags; then the array of one topic: its count, the name, the count of partitions, index
        self._error_at = 4 + 4 + 1 + 1 + (1 + len(topic.encode())) + 1 + 4
        self.sent_at = 0.0
        self.await_leader()

    def await_leader(self, within_s: float = 10) -> None:
        """Send until the broker leads the partition: a new topic may not have leaders yet."""
        deadline = time.perf_counter() + within_s
        while (error := self._call()) in NOT_YET:
            if time.perf_counter() > deadline:
                break
            time.sleep(0.02)
        if error:
            raise SystemExit(f"Produce was answered with error {error}")

    def _call(self) -> int:
        self.send()
        return self._error_of(self._answer())

    def send(self) -> None:
        """Send the request."""
        self.sent_at = time.perf_counter()
        self.socket.sendall(self._frame)

    def receive(self) -> float:
        """Read the answer; returns the seconds since the request was sent."""
        error = self._error_of(self._answer())
        if error:
            raise SystemExit(f"Produce was answered with error {error}")
        return time.perf_counter() - self.sent_at

    def _answer(self) -> bytes:
        answer = self.socket.recv(4096)
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            more = self.socket.recv(4096)
            if not more:
                raise SystemExit("the broker closed the connection")
            answer += more
        return answer

    def _error_of(self, answer: bytes) -> int:
        return int.from_bytes(answer[self._error_at : self._error_at + 2], "big", signed=True)


def sync(bootstrap: str, topic: str, connections: int, size_bytes: int, duration_s: float) -> dict[str, float]:
    """One record a request on each of several connections, each to its own partition.

    With several bootstrap servers, the partitions must be led by them in turn.
    """
    servers = bootstrap.split(",")
    clients = [
        Client(servers[index % len(servers)], topic, index, records=1, size_bytes=size_bytes)
        for index in range(connections)
    ]
    warm_up = run_clients(clients, duration_s * WARM_UP_SHARE)
    started = time.perf_counter()
    took = run_clients(clients, duration_s)
    seconds = time.perf_counter() - started
    took.sort()
    return {
        "requests": len(took),
        "all_requests": len(took) + len(warm_up),
        "seconds": seconds,
        "p50": percentile(took, 0.50) * 1000,
        "p99": percentile(took, 0.99) * 1000,
    }


def flood(
    bootstrap: str, topic: str, *, connections: int, records: int, size_bytes: int, duration_s: float
) -> dict[str, float]:
    """Large batches, one in flight on each connection, each to its own partition."""
    clients = [Client(bootstrap, topic, index, records=records, size_bytes=size_bytes) for index in range(connections)]
    started = time.perf_counter()
    took = run_clients(clients, duration_s)
    seconds = time.perf_counter() - started
    return {"bytes": len(took) * clients[0].frame_bytes, "seconds": seconds}


def fill(bootstrap: str, topic: str, batches: int, records: int, size_bytes: int) -> dict[str, float]:
    """Append `batches` batches of `records` records to partition 0."""
    client = Client(bootstrap, topic, 0, records=records, size_bytes=size_bytes)
    for _ in range(batches - 1):  # the constructor has sent the first
        client.send()
        client.receive()
    return {"records": batches * records}


def run_clients(clients: Sequence[Client], duration_s: float) -> list[float]:
    """Have every client send requests for a time, then read the last answers; returns the latencies in seconds."""
    took: list[float] = []
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send()
        deadline = time.perf_counter() + duration_s
        unanswered = len(clients)
        while unanswered:
            ready = selector.select(30)
            if not ready:
                raise SystemExit("no answer within 30 s")
            for key, _ in ready:
                took.append(key.data.receive())
                if time.perf_counter() < deadline:
                    key.data.send()
                else:
                    unanswered -= 1
    return took


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"sync": sync, "flood": flood, "fill": fill}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
