"""A supervised broker is started again after any error of its disk."""

import pytest
import trio

from odradek.gateway.quorum import QuorumDriver
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost


def test_a_disk_that_is_good_again_before_the_broker_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start fails with the error of a read, and the disk recovers while the broker closes what it has opened."""
    opens: list[QuorumDriver] = []
    really_open = QuorumDriver.open

    async def main() -> None:
        world = World(1)
        host = BrokerHost(world, "node-1", supervised=True)
        errors = world.disk("node-1").errors

        async def open_the_log(quorum: QuorumDriver) -> None:
            opens.append(quorum)
            errors.read_error = 1.0 if len(opens) == 2 else 0.0
            try:
                await really_open(quorum)
            finally:
                errors.read_error = 0.0

        monkeypatch.setattr(QuorumDriver, "open", open_the_log)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                host.start(nursery)
                await host.ready()
                assert host.broker is not None
                await host.stop()

    run_virtually(1, main)
    assert len(opens) == 3
