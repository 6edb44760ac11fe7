"""Deterministic simulation of whole brokers: virtual time, a memory network and disks, faults by seed.

world = World(seed)
run_virtually(seed, lambda: main(world))   # production code under world.environment("broker-1")
world.trace.digest                         # the same for the same seed, in every process
"""

from odradek.gateway.testing.simulation.disk import Disk, DiskPace
from odradek.gateway.testing.simulation.environment import SimEnvironment, World
from odradek.gateway.testing.simulation.network import MemoryNetwork, NetworkFaults
from odradek.gateway.testing.simulation.scheduling import deterministic_scheduling, run_virtually
from odradek.gateway.testing.simulation.trace import Event, Trace

__all__ = [
    "Disk",
    "DiskPace",
    "Event",
    "MemoryNetwork",
    "NetworkFaults",
    "SimEnvironment",
    "Trace",
    "World",
    "deterministic_scheduling",
    "run_virtually",
]
