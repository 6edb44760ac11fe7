"""A follower that does not fetch delays the transactions of its partitions, and no others."""

import pytest
import sim_apart
import trio
from sim_apart import STATE_TOPIC, Cluster, Producer, settings, with_cluster

from odradek.coordinator.partitioner import partition_for

COORDINATORS = 6
LAG_S = 12


def coordinated_by(cluster: Cluster, broker: int) -> str:
    """A transactional id with this coordinator."""
    names = [f"producer-{number}" for number in range(60)]
    return next(each for each in names if cluster.part(STATE_TOPIC, partition_for(each, COORDINATORS)).leader == broker)


@pytest.mark.parametrize("version", [1, 2])
def test_a_verification_does_not_wait_for_markers(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Broker 1 sends markers to broker 2, where they wait for broker 3, and asks it to verify what is written to 1."""
    changed = {
        "transaction.state.log.num.partitions": str(COORDINATORS),
        "transaction.state.log.replication.factor": "1",
        "replica.lag.time.max.ms": str(LAG_S * 1000),
    }
    monkeypatch.setattr(sim_apart, "settings", lambda node: settings(node) | changed)

    async def play(cluster: Cluster) -> None:
        await Producer(cluster, "first", version).take_over()
        await cluster.in_sync(STATE_TOPIC)
        await cluster.create([(2, 3), (1, 2)], min_insync_replicas="1")
        await cluster.in_sync("t")
        slow, quick = [Producer(cluster, coordinated_by(cluster, broker), version) for broker in (1, 2)]
        for producer in (slow, quick):
            await producer.take_over()
        assert await slow.write(b"slow", 0) == 0
        cluster.world.network.partition("node-2", "node-3")
        assert await slow.end(committed=True) == 0
        await trio.sleep(1)
        with trio.fail_after(LAG_S / 2):
            assert await quick.write(b"quick", 1) == 0
        assert not (await cluster.read(0))[1], "the marker still waits"

    with_cluster(version, play)
