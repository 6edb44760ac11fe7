"""A leader that restarts before its session expires: its image still has it as leader, from before its start.

Its previous incarnation may have lost records in the power cut. Without a new leader epoch, a record that it writes in
their place could not be told from the one that a follower has.
"""

import pytest
from sim_apart import STATE_TOPIC, TOPIC, Cluster, Producer, with_cluster

from odradek.gateway.errors import CoordinatorUnavailable
from odradek.wire.errors import ErrorCode


def test_a_leader_that_restarts_leads_only_in_the_epochs_after_its_registration() -> None:
    async def play(cluster: Cluster) -> None:
        await cluster.create([(1, 2, 3)])
        producer = Producer(cluster, "teller", 2)
        await producer.take_over()
        await cluster.in_sync(TOPIC, STATE_TOPIC)
        node = cluster.part(STATE_TOPIC).leader
        before = cluster.part(STATE_TOPIC)
        await cluster.crash(node)
        cluster.hosts[node].start(cluster.nursery)
        await cluster.hosts[node].ready()

        services = cluster.services(node)
        await cluster.until(lambda: services.metadata.image.topic(STATE_TOPIC) is not None)
        replica = services.replicas.find(STATE_TOPIC, 0)
        await replica.ensure_open()
        assert services.metadata.image.topic(STATE_TOPIC).partitions[0] == before
        assert not replica.role.leads
        with pytest.raises(CoordinatorUnavailable) as refused:
            services.transactions.runtime(0)
        assert refused.value.error is ErrorCode.NOT_COORDINATOR

        await cluster.until(lambda: cluster.part(STATE_TOPIC).leader_epoch > before.leader_epoch, "no election")
        await cluster.in_sync(TOPIC, STATE_TOPIC)
        assert await cluster.write(b"after") == 0
        assert await producer.write(b"in a transaction") == 0
        assert await producer.end(committed=True) == 0
        await cluster.reads([b"after", b"in a transaction"])

    with_cluster(1, play)
