"""A sole controller whose disk is full when it starts."""

import trio
from sim_apart import CONTROLLER, Cluster, with_cluster


def test_a_sole_controller_starts_on_a_full_disk_and_decides_again_when_there_is_space() -> None:
    async def play(cluster: Cluster) -> None:
        await cluster.create([(1, 2, 3)])
        await cluster.isr_is(1, 2, 3)
        await cluster.crash(CONTROLLER)
        errors = cluster.world.disk(f"node-{CONTROLLER}").errors
        errors.write_full = 1.0
        cluster.hosts[CONTROLLER].start(cluster.nursery)
        with trio.fail_after(60):
            await cluster.hosts[CONTROLLER].ready()
        await trio.sleep(10)
        assert sorted(cluster.part().isr) == [1, 2, 3]
        assert await cluster.write(b"led as before") == 0
        errors.write_full = 0.0
        await cluster.crash(3)
        await cluster.isr_is(1, 2)
        assert await cluster.write(b"after a decision") == 0
        await cluster.reads([b"led as before", b"after a decision"])

    with_cluster(1, play)
