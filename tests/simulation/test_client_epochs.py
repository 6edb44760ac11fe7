"""The simulated client of a cluster follows the leader epochs of metadata and of committed offsets, as real ones do."""

import trio

from odradek.gateway.testing.simulation.cluster.access import ClusterAccess, ClusterClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.simulation.test_three_nodes import NODES, TOPIC, Cluster, with_cluster


async def fetched(client: ClusterClient, offset: int) -> tuple[ErrorCode, bytes]:
    """The error and the records of a fetch from partition 0."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=(FetchTopic(topic=TOPIC, partitions=(wanted,)),)
    )
    answer = await client.call(request, 20)
    assert isinstance(answer, FetchResponse)
    [part] = answer.responses[0].partitions
    return ErrorCode(part.error_code), bytes(part.records or b"")


def test_after_a_committed_offset_of_a_later_epoch_a_client_leaves_the_leader_that_was_cut_off():
    async def play(cluster: Cluster) -> None:
        assert await cluster.create(1) == 0
        old = (await cluster.settled(1))[0]
        client = ClusterAccess(cluster.world, {number: (f"node-{number}", 9092) for number in NODES}).client("reader")
        assert await fetched(client, 0) == (ErrorCode.NONE, b"")
        others = [number for number in NODES if number != old]
        for other in others:
            cluster.world.network.partition(f"node-{old}", f"node-{other}", both_ways=True)
        with trio.fail_after(60):
            while (new := (await cluster.settled(others[0], isr=2))[0]) == old:  # noqa: ASYNC110 - only brokers know
                await trio.sleep(0.1)
        for number in range(2):
            assert await cluster.produce(new, 0, b"%d" % number) == 0
        # The metadata that it has names the old leader, whose log is empty.
        assert await fetched(client, 2) == (ErrorCode.OFFSET_OUT_OF_RANGE, b"")
        client.learn_leader_epoch(TOPIC, 0, 1)
        assert await fetched(client, 2) == (ErrorCode.NONE, b"")
        assert (await fetched(client, 0))[1]

    with_cluster(1, play)
