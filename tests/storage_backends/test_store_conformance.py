"""One suite over every backend, and over each behind the fault wrapper."""

import pytest
from storage_media import Faulty, InDirectory, InMemory, InPostgres, InSqlite

from odradek.storage_backends.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def store_factory(self):
        return InMemory


class TestMemoryWithPowerCuts(StoreConformance):
    @pytest.fixture
    def store_factory(self):
        return lambda: InMemory(power_cuts=True)


class TestLmdb(StoreConformance):
    @pytest.fixture
    def store_factory(self, tmp_path):
        return lambda: InDirectory(tmp_path)


class TestSqlite(StoreConformance):
    @pytest.fixture
    def store_factory(self, tmp_path):
        return lambda: InSqlite(tmp_path)


@pytest.mark.core
class TestPostgres(StoreConformance):
    @pytest.fixture
    def store_factory(self, postgres_server):
        return lambda: InPostgres(postgres_server.url())


class TestFaultyMemory(StoreConformance):
    @pytest.fixture
    def store_factory(self):
        return lambda: Faulty(InMemory(power_cuts=True))


class TestFaultyLmdb(StoreConformance):
    @pytest.fixture
    def store_factory(self, tmp_path):
        return lambda: Faulty(InDirectory(tmp_path))
