"""State of any size is loaded outside the event loop, or in turns."""

import threading

from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of

from odradek.coordinator.contract import ShardRecord
from odradek.gateway.coordinators.runtime import REPLAYED_AT_ONCE, replayed
from odradek.partitions.state import PartitionState
from odradek.wire.records.builder import SimpleRecord, build_batch


def test_a_partition_s_state_is_restored_beside_the_loop(monkeypatch):
    """In the event loop a log with 60,000 producers took a quarter of a second."""
    threads, real = [], PartitionState.restore

    def restore(snapshot, config):
        threads.append(threading.current_thread())
        return real(snapshot, config)

    monkeypatch.setattr(PartitionState, "restore", restore)
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t", flush_messages="1")
        client.produce("t", batch_of(b"opens it"))
        broker.env.fail_next_write()
        assert client.produce("t", batch_of(b"fails")).error_code
        assert client.produce("t", batch_of(b"loads it again")).error_code == 0
        assert len(threads) >= 3, "the metadata log, the topic's log, and that again"
        assert broker.in_trio(threading.current_thread) not in threads


class _Shard:
    def __init__(self):
        self.records: list[ShardRecord] = []

    def replay(self, record, offset, epoch, now_ms):
        del offset, epoch, now_ms
        self.records.append(record)


def test_a_coordinator_s_log_is_replayed_in_turns():
    count = 3 * REPLAYED_AT_ONCE + 1
    first = build_batch([SimpleRecord(b"%d" % number, b"v", 0) for number in range(count)])
    second = build_batch([SimpleRecord(b"last", b"v", 0)], base_offset=count)
    shard, seen = _Shard(), []
    offsets = []
    for offset in replayed(shard, memoryview(first + second), 0):
        offsets.append(offset)
        seen.append(len(shard.records))
    at_once = [REPLAYED_AT_ONCE * number for number in (1, 2, 3)]
    assert seen == [*at_once, count, count + 1]
    assert offsets == [count] * 4 + [count + 1]
