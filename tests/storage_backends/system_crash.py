"""Logs that are written without syncs, and a crash of the operating system."""

from odradek.storage_backends.interface import LogPolicy
from odradek.storage_backends.lmdb_segments.layout import partition_dir_name
from odradek.storage_backends.lmdb_segments.store import LmdbStore
from odradek.storage_backends.options import StoreOptions
from odradek.storage_backends.testing.keys import KEY

OPTIONS = StoreOptions(map_slack_bytes=4 << 20, max_value_bytes=4080)
PAGE_CACHE = LogPolicy(durable=False)


def directory(root):
    return root / partition_dir_name(KEY)


def markers(root):
    return sorted(each.name for each in directory(root).glob("*.unsynced"))


def after_a_crash(root, fill_log, damage=lambda path: None, content="00000000-another-boot"):
    """Leaves a store as after a system crash: not closed, and marked by another boot; the marker has `content`."""
    store = LmdbStore(root, OPTIONS)
    log = store.open(KEY, PAGE_CACHE)
    fill_log(log)
    (marker,) = markers(root)
    store.close()
    (directory(root) / marker).write_text(content)
    damage(directory(root) / marker.replace(".unsynced", ".lmdb"))


def reopened(root, options=OPTIONS):
    store = LmdbStore(root, options)
    return store, store.open(KEY, PAGE_CACHE)
