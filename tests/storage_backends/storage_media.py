"""Media of our own backends for the conformance suite."""

import itertools
import shutil
from pathlib import Path
from random import Random

from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.options import StoreOptions

SMALL = StoreOptions(
    max_value_bytes=4080,
    time_index_interval_bytes=1000,
    hot_bytes=10_000,
    map_slack_bytes=4 << 20,
    max_leases_per_segment=60,
    max_open_files=6,
    lending_map_bytes=0,
)


class InMemory:
    def __init__(self, power_cuts=False):
        self.medium = MemoryMedium(power_cuts=power_cuts)

    def open(self):
        return MemoryStore(self.medium)

    def destroy(self):
        pass


class InDirectory:
    numbers = itertools.count()

    def __init__(self, parent: Path, options=SMALL):
        self.root = parent / f"store-{next(self.numbers)}"
        self.options = options

    def open(self):
        return LmdbStore(self.root, self.options)

    def destroy(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Faulty:
    """Any medium behind the fault wrapper, with all faults off."""

    def __init__(self, inner):
        self.inner = inner

    def open(self):
        return FaultyStore(self.inner.open(), FaultPlan(Random(1)))

    def destroy(self):
        self.inner.destroy()
