"""Voters that restart at other ports: a leader among them sends its endpoint itself, since only its log has it."""

import pytest
import trio

from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.cluster.voters import OTHER_PORT, PORT, VoterChanges

NODES = (1, 2, 3)
MOVED = (2, 3)


def settings(node: int) -> dict[str, str]:
    return {
        "node.id": str(node),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://node-{node}:{PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "",
    }


def says(host: BrokerHost, ports: dict[int, int]) -> bool:
    """True if the newest voter set in a node's log is committed and has these ports."""
    if host.broker is None:
        return False
    quorum = host.broker.services.quorum
    named = quorum.replica.voters
    if named is None or named.offset >= quorum.core.high_watermark:
        return False
    return {each.key.id: each.endpoints["CONTROLLER"][1] for each in named.voters.voters} == ports


async def crash_all(hosts: dict[int, BrokerHost]) -> None:
    for host in hosts.values():
        await host.crash(power_cut=True)


@pytest.mark.parametrize("seed", range(6))
def test_a_quorum_elects_and_records_a_leader_that_has_moved(seed: int) -> None:
    ports = dict.fromkeys(NODES, PORT) | dict.fromkeys(MOVED, OTHER_PORT)

    async def main() -> None:
        world = World(seed)
        hosts = {node: BrokerHost(world, f"node-{node}", settings=settings(node)) for node in NODES}
        changes = VoterChanges(world, hosts, NODES)
        async with trio.open_nursery() as nursery:
            for host in hosts.values():
                host.start(nursery)
            await changes.form()
            await crash_all(hosts)
            for node in MOVED:
                hosts[node].settings["listeners"] = f"CONTROLLER://node-{node}:{OTHER_PORT}"
            for host in hosts.values():
                host.start(nursery)
            with trio.fail_after(60):
                while not all(says(host, ports) for host in hosts.values()):  # noqa: ASYNC110 - of virtual time
                    await trio.sleep(0.1)
            await crash_all(hosts)
            nursery.cancel_scope.cancel()
        world.close()

    run_virtually(seed, main)
