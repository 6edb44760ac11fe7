"""Spark writes to three nodes of Odradek and reads from them while a node is killed: every row is there once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.cluster_stage import ClusterStage
from compat_tests.clusters import CLUSTER_SETTINGS, OdradekNodes
from compat_tests.comparison import Comparison, is_missing
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

ROWS, PARTITIONS = 30_000, 3
LATEST = -1
PACE = 3000
"""The rows per micro-batch, small enough that many batches remain when the node is killed."""
API_TIMEOUT_MS = "15000"
"""The limit of the Java admin client, which waits for a killed node until then before it finds the new leader."""
pytestmark = [pytest.mark.timeout(400), pytest.mark.spark]


@pytest.fixture
def nodes() -> Iterator[OdradekNodes]:
    """Nodes that are fenced soon after they died."""
    running = OdradekNodes({**CLUSTER_SETTINGS, "broker.session.timeout.ms": "6000"})
    yield running
    running.stop()


def records_at(stage: ClusterStage, topic: str) -> int:
    """The number of records in the partitions whose leaders answer."""
    count = 0
    for index in range(PARTITIONS):
        part = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))
        for node in stage.running:
            [part] = stage.call(node, ApiKey.LIST_OFFSETS, 6, request).topics[0].partitions
            count += max(part.offset, 0) if not part.error_code else 0
    return count


def in_thread(work: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Runs work in a thread; the list receives the exception that it raises."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test's thread looks at it
            raised.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    return thread, raised


def test_every_row_is_there_once(nodes: OdradekNodes, comparison: Comparison) -> None:
    if is_missing("Java"):
        pytest.skip("not run: no Java, and the environment says that this is known")
    spark: Any = comparison.resources.spark()
    stage = ClusterStage(nodes, "rows", away=0)
    topic = stage.create(num_partitions=PARTITIONS, replication_factor=3)
    of_kafka = {
        "kafka.bootstrap.servers": nodes.bootstrap,
        "kafka.default.api.timeout.ms": API_TIMEOUT_MS,
        "kafka.request.timeout.ms": "5000",
    }

    def write() -> None:
        frame = spark.range(ROWS).selectExpr("cast(id % 7 as string) key", "cast(id as string) value").repartition(2)
        frame.write.format("kafka").options(**of_kafka, topic=topic, **{"kafka.linger.ms": "0"}).save()

    writer, raised = in_thread(write)
    wait_for(lambda: records_at(stage, topic) > 0, "the first rows")
    _kill(stage, stage.partitions(topic)[0].leader_id)
    writer.join()
    assert raised == []
    assert _count(spark, of_kafka, topic) == (ROWS, ROWS)
    nodes.start(*(number for number in nodes.nodes if number not in stage.running))
    for index in range(PARTITIONS):
        stage.await_isr(topic, index, *nodes.nodes)
    _read_while_a_node_dies(spark, of_kafka, stage, topic)
    stage.close()


def _kill(stage: ClusterStage, number: int) -> None:
    stage.nodes.kill(number)
    stage.forget(number)


def _count(spark: Any, of_kafka: dict[str, str], topic: str) -> tuple[int, int]:
    """The number of rows, and of different rows."""
    frame = spark.read.format("kafka").options(**of_kafka, subscribe=topic).load()
    [found] = frame.selectExpr("count(value) total", "count(distinct value) different").collect()
    return found.total, found.different


def _read_while_a_node_dies(spark: Any, of_kafka: dict[str, str], stage: ClusterStage, topic: str) -> None:
    source = spark.readStream.format("kafka").options(
        **of_kafka, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=PACE
    )
    seen: list[str] = []

    def keep(frame: Any, _batch: int) -> None:
        seen.extend(row.v for row in frame.selectExpr("cast(value as string) v").collect())

    query = source.load().writeStream.foreachBatch(keep).trigger(availableNow=True).start()
    try:
        wait_for(lambda: len(seen) >= PACE, "the first batch")
        _kill(stage, stage.partitions(topic)[1].leader_id)
        assert len(seen) < ROWS, "the node died too late to say anything"
        assert query.awaitTermination(180)
    finally:
        query.stop()
    assert len(seen) == ROWS
    assert len(set(seen)) == ROWS
