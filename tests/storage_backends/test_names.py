"""Names of topics that not every file system takes, and the paths in URLs of Windows."""

from urllib.parse import urlsplit
from uuid import UUID

import pytest

from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.layout import parse_partition_dir, partition_dir_name, partition_path
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.opener import absolute_path
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.access import fill

ID = UUID("5b9fbb8e-6d4b-4fda-a839-be3b58ef7d11")
OTHER_ID = UUID("2c9fbb8e-6d4b-4fda-a839-be3b58ef7d12")


def key_of(topic):
    return PartitionKey(topic, ID, 0)


@pytest.mark.parametrize("topic", ["con.orders", "NUL.x", "com1.a", "Lpt9.b", "aux." + "a" * 200])
def test_a_directory_is_not_named_like_a_device(tmp_path, topic):
    path = partition_path(tmp_path, key_of(topic))
    assert path.name.startswith("~")
    store = LmdbStore(tmp_path, StoreOptions())
    fill(store.open(key_of(topic), LogPolicy()), 3)
    store.close()
    assert parse_partition_dir(path) == key_of(topic)
    store = LmdbStore(tmp_path, StoreOptions())
    assert list(store.partitions()) == [key_of(topic)]
    assert store.open(key_of(topic), LogPolicy()).load().log_end_offset == 3
    store.close()


@pytest.mark.parametrize("topic", ["orders", "con", "contracts.eu", "com.shop", "a.con.b"])
def test_other_names_are_as_they_were(tmp_path, topic):
    assert partition_path(tmp_path, key_of(topic)) == tmp_path / partition_dir_name(key_of(topic))


def test_a_directory_of_an_earlier_version_is_used_as_it_is(tmp_path):
    (tmp_path / partition_dir_name(key_of("con.orders"))).mkdir()
    assert partition_path(tmp_path, key_of("con.orders")).name.startswith("con.")


def test_topics_whose_names_differ_in_case_share_no_directory():
    names = {partition_dir_name(PartitionKey(*each, 0)).lower() for each in [("Orders", ID), ("orders", OTHER_ID)]}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("lmdb:///C:/data/a b", "C:/data/a b"),
        ("lmdb:///C:/data/a%20b", "C:/data/a b"),
        ("lmdb://C%3A%5CUsers%5Ck%5Cdata", r"C:\Users\k\data"),
        ("sqlite:///C:/data.db", "C:/data.db"),
        ("lmdb:///data", None),
        ("lmdb://data", None),
        ("lmdb:///C:data", None),
    ],
)
def test_a_path_of_windows_has_a_drive(url, path):
    assert absolute_path(urlsplit(url), is_windows=True) == path


@pytest.mark.parametrize(("url", "path"), [("lmdb:///a%20b", "/a b"), ("lmdb://a/b", None), ("lmdb:a", None)])
def test_other_paths_begin_with_a_slash(url, path):
    assert absolute_path(urlsplit(url), is_windows=False) == path
