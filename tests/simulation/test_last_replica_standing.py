"""KIP-966 with whole nodes: the ISR shrinks to one broker, whose disk is then lost."""

import pytest
import trio
from sim_apart import Cluster, with_cluster

from odradek.wire.errors import ErrorCode


@pytest.mark.parametrize("whole", [False, True])
def test_an_eligible_replica_leads_when_the_last_one_in_sync_was_lost(whole: bool) -> None:
    """The last replica in sync has lost its unsynced records, or its whole disk."""

    async def play(cluster: Cluster) -> None:
        await cluster.create([(1, 2, 3)])
        await cluster.isr_is(1, 2, 3)
        assert await cluster.write(b"by all") == 0
        await cluster.crash(3)
        await cluster.isr_is(1, 2)
        assert await cluster.write(b"by two") == 0
        await cluster.hosts[2].stop()
        await cluster.isr_is(1)
        assert (cluster.part().leader, cluster.part().elr) == (1, (2,))
        assert await cluster.write(b"refused") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await cluster.write(b"alone", acks=1) == 0

        await cluster.crash(1)
        if whole:
            cluster.world.disk("node-1").lose(lambda _: False, lambda _: False)
        await cluster.until(lambda: cluster.part().leader == -1)
        await cluster.start(1, 3)
        await trio.sleep(20)
        assert (cluster.part().leader, cluster.part().isr, cluster.part().elr) == (-1, (), (2,))

        await cluster.start(2)
        await cluster.isr_is(1, 2, 3)
        assert cluster.part().leader == 2
        await cluster.reads([b"by all", b"by two"])
        assert await cluster.write(b"after") == 0
        await cluster.reads([b"by all", b"by two", b"after"])

    with_cluster(1, play)
