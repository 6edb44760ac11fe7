"""The tests of listing logs and setting them aside. The fixtures are those of `conformance`."""

import pytest

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import LogPolicy, Store, StoreError, StrayLog
from odradek.storage_backends.testing.access import fill, joined, read_all
from odradek.storage_backends.testing.keys import KEY, REINCARNATION, SIBLING
from odradek.storage_backends.testing.medium import StoreMedium

POLICY = LogPolicy()


class SettingAside:
    """A log that is set aside is kept, but not listed with the others."""

    def test_a_log_that_is_set_aside_is_out_of_the_way_until_it_is_taken_back(
        self, medium: StoreMedium, store: Store
    ) -> None:
        """Also after a restart."""
        log = store.open(KEY, POLICY)
        batches = fill(log, 3)
        with pytest.raises(StoreError, match="open"):
            store.set_aside(KEY)
        log.close()
        fill(store.open(SIBLING, POLICY), 1)
        name = store.set_aside(KEY)
        assert list(store.partitions()) == [SIBLING]
        assert list(store.strays()) == [StrayLog(name, KEY)]
        with pytest.raises(StoreError):
            store.set_aside(KEY)
        store.close()
        store = medium.open()
        assert list(store.strays()) == [StrayLog(name, KEY)]
        store.take_back(name)
        assert (list(store.partitions()), list(store.strays())) == ([KEY, SIBLING], [])
        assert read_all(store.open(KEY, POLICY), 0) == joined(batches)
        store.close()

    def test_several_logs_of_a_partition_may_be_set_aside_and_deleted_one_by_one(self, store: Store) -> None:
        """Each has a name of its own, and other names are refused."""
        names: list[str] = []
        for _ in range(3):
            store.open(KEY, POLICY).close()
            names.append(store.set_aside(KEY))
        assert sorted(each.name for each in store.strays()) == sorted(names)
        store.open(KEY, POLICY).close()
        with pytest.raises(StoreError):
            store.take_back(names[1])
        for name in (names[1], names[1]):
            store.delete_stray(name)
        assert {each.name for each in store.strays()} == {names[0], names[2]}
        assert list(store.partitions()) == [KEY]
        for name in ("lost+found", "../format", names[1]):
            with pytest.raises(StoreError):
                store.take_back(name)

    def test_partitions_are_listed_as_they_come_and_go(self, store: Store) -> None:
        """The list is refreshed with every log that is created or deleted."""
        listed: list[PartitionKey] = []
        for key in (SIBLING, KEY, REINCARNATION):
            assert list(store.partitions()) == sorted(listed)
            assert not store.holds(key)
            store.open(key, POLICY).close()
            assert store.holds(key)
            listed.append(key)
        assert list(store.partitions()) == sorted(listed)
        store.delete(listed.pop())
        assert list(store.partitions()) == sorted(listed)
