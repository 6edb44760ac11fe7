"""Commits offsets of one group, as fast as they are acknowledged, and fetches them."""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import Any

from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from odradek.wire.schema.schema import Message

VERSIONS = {ApiKey.FIND_COORDINATOR: 3, ApiKey.OFFSET_COMMIT: 8, ApiKey.OFFSET_FETCH: 7}
GROUP = "bench-offsets"
WAIT_LIMIT_S = 60
NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class _Client:
    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, key: ApiKey, request: Message) -> Any:  # noqa: ANN401
        self._socket.sendall(encode_request(request, VERSIONS[key], 1, "bench"))
        size = int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")
        return decode_response(key, VERSIONS[key], self._socket.recv(size, socket.MSG_WAITALL))[1]


def commit(bootstrap: str, topic: str, partitions: int, commits: int) -> dict[str, float]:
    """Commit `commits` offsets, in requests that each commit the offset of every partition."""
    client = _Client(bootstrap)
    deadline = time.perf_counter() + WAIT_LIMIT_S
    while client.call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=GROUP)).error_code:
        _pause(deadline)
    while _commit(client, topic, partitions, 0) in NOT_YET:
        _pause(deadline)
    started = time.perf_counter()
    rounds = commits // partitions
    for offset in range(1, rounds):
        error = _commit(client, topic, partitions, offset)
        if error:
            raise SystemExit(f"OffsetCommit was answered with error {error}")
    return {"commits": (rounds - 1) * partitions, "seconds": time.perf_counter() - started}


def _commit(client: _Client, topic: str, partitions: int, offset: int) -> int:
    parts = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(partitions)
    )
    topics = (OffsetCommitRequestTopic(name=topic, partitions=parts),)
    answer = client.call(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id=GROUP, topics=topics))
    return next((part.error_code for part in answer.topics[0].partitions if part.error_code), 0)


def fetch(bootstrap: str, partitions: int, offset: int) -> dict[str, float]:
    """Fetch all of the group's offsets, as soon as the coordinator serves; each must be `offset`."""
    client = _Client(bootstrap)
    deadline = time.perf_counter() + WAIT_LIMIT_S
    while (answer := client.call(ApiKey.OFFSET_FETCH, OffsetFetchRequest(group_id=GROUP, topics=None))).error_code:
        _pause(deadline)
    found = [part.committed_offset for topic in answer.topics for part in topic.partitions]
    if found != [offset] * partitions:
        raise SystemExit(f"{len(found)} offsets came, {found.count(offset)} of them right, instead of {partitions}")
    return {"found": len(found)}


def _pause(deadline: float) -> None:
    if time.perf_counter() > deadline:
        raise SystemExit(f"the coordinator did not answer within {WAIT_LIMIT_S} s")
    time.sleep(0.005)


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"commit": commit, "fetch": fetch}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
