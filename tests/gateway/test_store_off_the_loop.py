"""Calls that may wait for a disk run in a worker thread, also for a log that is left to the page cache.

The store of the brokers here (`FaultyEnvironment`) raises if such a call comes from the event loop.
"""

import pytest
import trio
from gateway_brokers import ThreadBroker, internal_errors
from gateway_client import RawClient, batch_of
from off_the_loop import CalledOnTheLoopError

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import LogPolicy
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

TOPIC_RESOURCE = 2
SEGMENT = {"internal_segment_bytes": "2000"}
SOON = {"log_retention_check_interval_ms": 100, "log_initial_task_delay_ms": 0}


@pytest.fixture(params=["memory", "lmdb"])
def broker(request, tmp_path):
    storage = "memory://" if request.param == "memory" else f"lmdb://{tmp_path}/data"
    with ThreadBroker(storage, **SOON) as running:
        yield running


def _alter(client, name, value):
    changed = (AlterableConfig(name=name, value=value),)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="t", configs=changed)
    [answer] = client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert answer.error_code == 0, answer


def _fill(client, count):
    """Batches of about 1,000 bytes, each of which fills a segment."""
    for _ in range(count):
        assert client.produce("t", batch_of(b"x" * 1000)).error_code == 0


def _delete_below(client, offset):
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=1000)
    assert client.call(request).topics[0].partitions[0].error_code == 0


def _offset_at(client, timestamp):
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(part,)),)))


def test_a_log_rolls_syncs_and_loses_segments_off_the_loop(broker, broker_log):
    with RawClient(broker.address) as client:
        client.create_topic("t", flush_messages="1000", retention_ms="-1", **SEGMENT)
        _fill(client, 5)
        for value in ("1", "1000", "1"):  # begins segments of the other kind
            _alter(client, "flush.messages", value)
            _fill(client, 3)
        _delete_below(client, 4)
        _delete_below(client, -1)
        _fill(client, 2)
        for timestamp in (0, -1, -2, -3):
            assert _offset_at(client, timestamp).topics[0].partitions[0].error_code == 0
        client.call(DescribeLogDirsRequest(topics=None))
        assert client.fetch("t", offset=14).error_code == 0
        _alter(client, "retention.bytes", "1000")
        client.create_topic("u", partitions=30)
        client.call(ListOffsetsRequest(topics=()))
    assert internal_errors(broker_log.records) == []


def test_small_commits_are_done_at_once_and_one_that_rolls_is_not(tmp_path):
    with ThreadBroker(f"lmdb://{tmp_path}/data") as broker, RawClient(broker.address) as client:
        client.create_topic("t", flush_messages="1000", retention_ms="-1", **SEGMENT)
        _fill(client, 1)
        assert _segments(broker) == [0]
        _fill(client, 2)
        assert _segments(broker) == [0, 1, 2]


def _segments(broker):
    replica = broker.in_trio(lambda: broker.broker.services.replicas.get("t", 0))
    view = trio.from_thread.run(replica.view, trio_token=broker.token)
    return [each.base_offset for each in view.segments]


def test_the_store_of_these_tests_tells_where_it_is_called_from(broker):
    """The check itself works: such calls raise in the Trio thread, and nowhere else."""
    store = broker.in_trio(lambda: broker.broker.services.replicas.resources.store)
    assert store.space().location

    async def main():
        await trio.lowlevel.checkpoint()
        for call in (store.space, lambda: store.open(PartitionKey("x", None, 0), LogPolicy())):
            with pytest.raises(CalledOnTheLoopError):
                call()

    trio.run(main)
