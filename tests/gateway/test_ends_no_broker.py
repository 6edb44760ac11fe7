"""Requests and settings that ended a broker, or kept it from starting."""

import pytest
import trio
from gateway_brokers import ProcessBroker, ThreadBroker
from gateway_client import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    RawClient,
    assert_serves,
)
from gateway_transactions import Transactional

from odradek.gateway.net.transport import dial_tcp
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.import_batches import ImportBatchesRequest, ImportPartition, ImportTopic
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.records.builder import SimpleRecord, build_batch

BROKER, TOPIC = 4, 2


def alter(client, kind, name, key, value):
    configs = (AlterableConfig(name=key, value=value),)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses[0].error_code


@pytest.mark.parametrize("value", ["nonsense", "10.0.0.1:many", "10.0.0.1:", "10.0.0.1:" + "9" * 5000])
def test_malformed_connection_limits_are_refused(tmp_path, value):
    """They were accepted, and the broker never started again."""
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            key = "max.connections.per.ip.overrides"
            assert alter(client, BROKER, "", key, value) == ErrorCode.INVALID_REQUEST
            assert alter(client, BROKER, "", key, "10.0.0.1:5,10.0.0.2:9") == ErrorCode.NONE
            client.create_topic("t")
        assert broker.terminate() == 0
        broker.start()
        assert_serves(broker.address)


def test_an_import_leaves_room_for_further_records():
    """At the largest offset, the markers of open transactions could not be written."""
    with ThreadBroker(odradek_import_far_enable="true") as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        for offset, error in ((2**63 - 2, ErrorCode.INVALID_RECORD), (2**62, ErrorCode.NONE)):
            batch = build_batch([SimpleRecord(b"k", b"v", 0)], base_offset=offset)
            part = ImportPartition(index=0, records=memoryview(batch))
            request = ImportBatchesRequest(timeout_ms=5000, topics=(ImportTopic(name="t", partitions=(part,)),))
            assert client.call(request).topics[0].partitions[0].error_code == error
        assert client.end_offset("t") == 2**62 + 1


def test_a_marker_is_written_whatever_size_the_topic_allows():
    """Otherwise the transaction stays open for readers, although it is complete."""
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t", retention_ms="-1")
        producer = Transactional(client, "tx")
        assert producer.add("t", 0) == {0}
        assert producer.write("t", b"v") == 0
        assert alter(client, TOPIC, "t", "max.message.bytes", "10") == 0
        assert producer.end(True) == 0
        topics = (ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),)
        asked = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics)
        assert client.call(asked).topics[0].partitions[0].offset == 2


@pytest.mark.parametrize("host", ["x" * 300, "é" * 80, "a..b"])
async def test_a_host_whose_name_cannot_be_looked_up_is_not_reached(host):
    """It ended a broker to which another one, or a controller, had given it as its address."""
    with pytest.raises(OSError, match="not the name of a host"), trio.fail_after(60):
        await dial_tcp(host, 9092)
