"""A hundred thousand committed offsets through the whole broker leave a small topic that loads at once."""

import threading
from pathlib import Path

from gateway_brokers import ThreadBroker
from gateway_client import RawClient
from gateway_groups import committed, find
from test_retention import alter

from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

OFFSETS = "__consumer_offsets"
COMMITS, PARTITIONS = 100_000, 500
SEGMENT_BYTES = 500_000
SETTINGS = {"log_cleaner_backoff_ms": 20, "offsets_topic_num_partitions": 1}


def commit_all(client: RawClient, group: str, offset: int) -> None:
    """Commits one offset for each partition, in one request."""
    parts = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(PARTITIONS)
    )
    answer = client.call(
        OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name="t", partitions=parts),))
    )
    assert {part.error_code for part in answer.topics[0].partitions} == {0}


def disk_bytes(data: Path) -> int:
    """The disk space of the topic; a file that the cleaner removes meanwhile counts as 0."""
    total = 0
    for path in data.rglob("*"):
        if OFFSETS in str(path.relative_to(data)) and path.is_file():
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def records(client: RawClient) -> int:
    start = client.end_offset(OFFSETS, timestamp=-2)
    return sum(len(found) for _, found in client.fetch_all(OFFSETS, 0, start))


def await_few_records(client: RawClient, limit: int) -> None:
    pause = threading.Event()
    for _ in range(600):
        if records(client) <= limit:
            return
        pause.wait(0.05)
    assert records(client) <= limit


def test_the_offsets_topic_stays_small(tmp_path, broker_log):
    broker = ThreadBroker(f"lmdb://{tmp_path}/data", **SETTINGS)
    rounds = COMMITS // PARTITIONS
    with broker, RawClient(broker.address) as client:
        client.create_topic("t", PARTITIONS)
        while find(client, "g"):
            pass
        alter(client, OFFSETS, internal_segment_bytes=str(SEGMENT_BYTES), min_cleanable_dirty_ratio="0.1")
        for offset in range(rounds):
            commit_all(client, "g", offset)
        assert client.end_offset(OFFSETS) >= COMMITS
        # Compaction leaves one record for each partition, and the records of the active segment.
        await_few_records(client, 20 * PARTITIONS)
        assert disk_bytes(tmp_path / "data") < 10 * SEGMENT_BYTES
    with broker, RawClient(broker.address) as client:
        assert committed(client, "g") == {("t", index): rounds - 1 for index in range(PARTITIONS)}
