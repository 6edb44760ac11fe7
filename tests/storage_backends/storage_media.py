"""Media of our own backends for the conformance suite."""

import itertools
import os
import shutil
from pathlib import Path
from random import Random
from typing import ClassVar

from sqlalchemy import create_engine, make_url

from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.sql import SqlStore
from odradek.storage_backends.sql.schema import METADATA

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


class InSqlite:
    numbers = itertools.count()

    def __init__(self, parent: Path):
        self.url = f"sqlite:///{parent / f'store-{next(self.numbers)}.db'}"

    def open(self):
        return SqlStore(self.url, SMALL)

    def destroy(self):
        pass


class InPostgres:
    """A schema on a server. A destroyed medium's schema is emptied and used again, since creating one is slow."""

    numbers = itertools.count()
    spare: ClassVar[list[str]] = []

    def __init__(self, server: str):
        self.server = make_url(server)
        if self.spare:
            self.schema = self.spare.pop()
        else:
            self.schema = f"store_{os.getpid()}_{next(self.numbers)}"
            self._administer(f"CREATE SCHEMA {self.schema}")
        self.url = self.server.update_query_dict({"options": f"-csearch_path={self.schema}"})

    def open(self):
        return SqlStore(self.url.render_as_string(hide_password=False), SMALL)

    def destroy(self):
        self._administer(*[f"DELETE FROM {self.schema}.{table.name}" for table in reversed(METADATA.sorted_tables)])
        self.spare.append(self.schema)

    def _administer(self, *statements):
        engine = create_engine(self.server)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()


class Faulty:
    """Any medium behind the fault wrapper, with all faults off."""

    def __init__(self, inner):
        self.inner = inner

    def open(self):
        return FaultyStore(self.inner.open(), FaultPlan(Random(1)))

    def destroy(self):
        self.inner.destroy()
