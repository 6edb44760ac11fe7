"""A node that is only a broker observes the quorum: it publishes committed metadata, and is never a candidate."""

import pytest
import trio
from sim_quorum import NODES, Cluster

from odradek.coordinator.quorum.values import State
from odradek.gateway.testing.simulation import run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost

OBSERVER = 4


VOTERS = {"controller.quorum.voters": ",".join(f"{each}@node-{each}:9093" for each in NODES)}
SERVERS = {"controller.quorum.bootstrap.servers": ",".join(f"node-{each}:9093" for each in NODES)}


@pytest.mark.parametrize("known", [VOTERS, SERVERS], ids=["voters", "servers"])
def test_a_broker_that_is_no_controller_follows_each_leader(known):
    cluster = Cluster(1)
    settings = {
        "node.id": str(OBSERVER),
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://node-{OBSERVER}:9092",
        "controller.listener.names": "CONTROLLER",
        **known,
    }
    observer = BrokerHost(cluster.world, f"node-{OBSERVER}", settings=settings)
    followed: dict[int, int] = {}

    def catches_up() -> bool:
        broker = observer.broker
        return broker is not None and not cluster.seen.lacks(broker.services.metadata.image)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for host in (*cluster.hosts.values(), observer):
                host.start(nursery)
            nursery.start_soon(cluster.create_forever)
            for wanted in (5, 10):
                while cluster.seen.tally["answered"] < wanted or not catches_up():  # noqa: ASYNC110 - of virtual time
                    await trio.sleep(0.05)
                assert observer.broker is not None
                core = observer.broker.services.quorum.core
                assert (core.state, core.election.voted) == (State.FOLLOWER, None)
                followed[core.epoch] = core.leader_id
                leader = cluster.hosts[core.leader_id]
                await leader.crash(power_cut=True)
            for host in (*cluster.hosts.values(), observer):
                await host.crash(power_cut=False)
            nursery.cancel_scope.cancel()

    run_virtually(1, main)
    cluster.world.close()
    assert len(set(followed.values())) == 2
