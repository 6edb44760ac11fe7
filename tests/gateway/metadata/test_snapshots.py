"""Snapshots of a single broker: written, loaded by the next start, and their state after crashes and losses."""

import json
import logging
import time
from functools import partial

import pytest
import trio
from click.testing import CliRunner
from gateway_brokers import FaultyEnvironment, ThreadBroker, logged
from gateway_client import RawClient
from trio.testing import MockClock

from odradek.coordinator.metadata.image.checkpoint import SnapshotReader, snapshot_batches
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.quorum.values import SnapshotId
from odradek.gateway.beside.catalog import Catalog
from odradek.gateway.cli.main import cli
from odradek.gateway.errors import StartError, first_error
from odradek.gateway.quorum.snapshots import PROPERTY, Snapshots, find_snapshots
from odradek.partitions.metadata_log import METADATA_KEY, snapshot_key, snapshot_of
from odradek.partitions.model import LogWrite, StoredBatch
from odradek.storage_backends.beside import LogGoneError
from odradek.storage_backends.interface import LogPolicy, StoreFullError
from odradek.storage_backends.memory import MemoryMedium, MemoryStore
from odradek.storage_backends.opener import open_beside, open_store
from odradek.wire.errors import UnsupportedVersionError
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

OFTEN = {"metadata_log_max_record_bytes_between_snapshots": 300, "metadata_max_retention_bytes": 0}
OF_TWO = {
    "process_roles": "broker,controller",
    "controller_quorum_voters": "1@127.0.0.1:1,2@127.0.0.1:2",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1",
}
TOPICS = [f"topic-{number}" for number in range(12)]


@pytest.fixture(params=["lmdb", "sqlite"])
def storage(request, tmp_path):
    return f"lmdb://{tmp_path}/data" if request.param == "lmdb" else f"sqlite:///{tmp_path}/data.db"


def is_trimmed(broker):
    """True once the newest snapshot has all but the last records, and nothing before it is left."""
    replica = broker.broker.services.quorum.replica
    between_bytes = OFTEN["metadata_log_max_record_bytes_between_snapshots"]
    known, start, grown_bytes = broker.in_trio(
        lambda: ([*replica.snapshots.known], replica.log.log_start_offset, replica.unsnapshotted_bytes)
    )
    stored = [snapshot_of(key) for key in broker.env.store.partitions() if snapshot_of(key) is not None]
    return stored == known and [start] == [each.end_offset for each in known] and grown_bytes < between_bytes


def has_snapshot(broker):
    return extent(broker)[1] is not None


def at_once(_broker):
    return True


def fill(storage, until=is_trimmed, **config):
    """Creates topics one by one and deletes the first; returns the log start offset and the newest snapshot.

    The broker stops when `until(broker)`: snapshots are written and trimmed beside the requests. A failing test ends by
    its time-out.
    """
    with ThreadBroker(storage, **(OFTEN | config)) as broker, RawClient(broker.address) as client:
        for name in TOPICS:
            client.create_topic(name)
        client.call(DeleteTopicsRequest(topics=(DeleteTopicState(name=TOPICS[0]),), timeout_ms=60_000), 6)
        while not until(broker):
            time.sleep(0.01)
        image = extent(broker)[2]
        if storage == "memory://":
            return extent(broker)
    store = open_store(storage)
    try:
        part = store.open(METADATA_KEY, LogPolicy())
        text = store.properties().get(PROPERTY, "[]")
        named = [SnapshotId(each["endOffset"], each["epoch"]) for each in json.loads(text)]
        return part.load().log_start_offset, max(named, default=None), image
    finally:
        store.close()


def extent(broker):
    replica = broker.broker.services.quorum.replica
    wanted = broker.broker.services.metadata
    return broker.in_trio(lambda: (replica.log.log_start_offset, replica.newest_snapshot, wanted.image))


def started(storage, **config):
    with ThreadBroker(storage, **config) as broker:
        return extent(broker)


def test_the_log_is_trimmed_behind_a_snapshot_from_which_the_next_start_goes_on(storage):
    start, newest, image = fill(storage)
    assert 0 < start <= newest.end_offset <= image.offset + 1
    again, _, loaded = started(storage)
    assert again >= start
    assert sorted(loaded.topics_by_name) == sorted(TOPICS[1:])
    assert loaded.cluster_id == image.cluster_id
    assert loaded.topics_by_id == image.topics_by_id
    assert loaded.offset >= image.offset


def test_readers_beside_the_broker_know_the_topics_of_a_trimmed_log(storage):
    """`odradek sql` and Spark's `format("odradek")` begin with the snapshot, and so do readers that continue."""
    with ThreadBroker(storage, **OFTEN) as broker, RawClient(broker.address) as client:
        client.create_topic(TOPICS[0], retention_ms="7")
        logs = open_beside(storage)
        reader = Catalog(logs)
        assert list(reader.topics()) == [TOPICS[0]]
        for name in TOPICS[1:]:
            client.create_topic(name)
        client.call(DeleteTopicsRequest(topics=(DeleteTopicState(name=TOPICS[1]),), timeout_ms=60_000), 6)
        while not is_trimmed(broker):
            time.sleep(0.01)
        start, _, image = extent(broker)
        assert start > 0
        for catalog in (reader, Catalog(logs)):
            topics = catalog.topics()
            assert sorted(topics) == sorted(set(TOPICS) - {TOPICS[1]})
            assert {key.topic_id for topic in topics.values() for key in topic.values()} == set(image.topics_by_id)
            assert catalog.settings(TOPICS[0]) == {"retention.ms": "7"}
        logs.close()


def test_a_metadata_log_that_is_missing_is_an_error_of_the_store(storage, monkeypatch):
    with ThreadBroker(storage):
        pass
    logs = open_beside(storage)
    looks = []

    def missing(key):
        looks.append(key)
        raise LogGoneError("removed")

    monkeypatch.setattr(logs, "look", missing)
    with pytest.raises(LogGoneError, match="removed"):
        Catalog(logs).topics()
    assert 1 < len(looks) < 10
    logs.close()


def test_settings_that_are_large_keep_the_log_whole(storage):
    start, newest, _ = fill(storage, at_once, metadata_log_max_record_bytes_between_snapshots=1_000_000)
    assert (start, newest) == (0, None)


def test_the_log_stays_until_snapshots_and_log_are_too_large(storage):
    start, newest, _ = fill(storage, has_snapshot, metadata_max_retention_bytes=10_000_000)
    assert start == 0
    assert newest is not None


def whole_and_all(storage):
    store = open_store(storage)
    try:
        return list(find_snapshots(store)), [key for key in store.partitions() if snapshot_of(key) is not None]
    finally:
        store.close()


def change(storage, act):
    store = open_store(storage)
    try:
        return act(store)
    finally:
        store.close()


def test_what_a_crash_leaves_of_a_snapshot_is_dropped_with_the_next(storage):
    fill(storage)
    half = snapshot_key(10_000, 9)

    def begin(store):
        part = store.open(half, LogPolicy())
        part.commit([LogWrite((StoredBatch(0, 0, 1, header),))], sync=True)
        part.close()

    header = next(snapshot_batches(MetadataImage(), 1))
    change(storage, begin)
    assert half in whole_and_all(storage)[1]
    with ThreadBroker(storage, **OFTEN) as broker, RawClient(broker.address) as client:
        for number in range(6):
            client.create_topic(f"more-{number}")
        while not is_trimmed(broker):
            time.sleep(0.01)
    whole, every = whole_and_all(storage)
    assert [snapshot_key(*each) for each in whole] == every
    assert half not in every


def test_a_snapshot_that_the_properties_do_not_name_is_found(storage):
    _, _, image = fill(storage)
    whole, _ = whole_and_all(storage)  # the broker may have stopped before it recorded the newest one
    change(storage, lambda store: store.set_properties({PROPERTY: "[]"}))
    _, found, loaded = started(storage)
    assert found == max(whole)
    assert loaded.topics_by_id == image.topics_by_id


def refusal(storage, **config):
    with pytest.raises(BaseExceptionGroup) as failed:
        ThreadBroker(storage, FaultyEnvironment, **config).start()
    error = first_error(failed.value)
    assert isinstance(error, StartError)
    return str(error)


def test_a_start_is_refused_when_the_snapshot_of_what_was_trimmed_is_lost(storage):
    start, _, _ = fill(storage)

    def lose(store):
        for key in store.partitions():
            if snapshot_of(key) is not None:
                store.delete(key)
        store.set_properties({PROPERTY: "[]"})

    change(storage, lose)
    message = refusal(storage)
    assert f"begins at {start}" in message
    assert "odradek recover" in message


@pytest.mark.parametrize("config", [{}, OF_TWO], ids=["alone", "of two"])
def test_a_start_is_refused_when_a_snapshot_is_of_a_newer_version(storage, config, monkeypatch):
    fill(storage)
    change(storage, lambda store: store.set_properties({PROPERTY: "[]"}))

    def add(_self, _chunk):
        raise UnsupportedVersionError("RegisterBrokerRecord has no version 99")

    monkeypatch.setattr(SnapshotReader, "add", add)
    message = refusal(storage, **config)
    assert "the metadata log cannot be read" in message
    assert "no version 99" in message


def test_a_damaged_property_is_named(storage):
    fill(storage)
    change(storage, lambda store: store.set_properties({PROPERTY: "nonsense"}))
    assert PROPERTY in refusal(storage)


def test_a_log_that_ended_before_it_had_begun_anew_does_so_with_the_next_start(storage):
    """The state after a crash between the download of a snapshot and the restart of the log behind it."""
    _, newest, image = fill(storage)

    def lose(store):
        part = store.open(METADATA_KEY, LogPolicy())
        part.truncate(0)
        part.close()

    change(storage, lose)
    start, again, loaded = started(storage)
    assert (start, again) == (newest.end_offset, newest)
    assert 0 < len(loaded.topics_by_id) <= len(image.topics_by_id) + 1


def test_a_lost_log_is_recovered_with_what_its_snapshot_says(tmp_path):
    storage = f"lmdb://{tmp_path}/data"
    _, _, image = fill(storage)
    change(storage, lambda store: store.delete(METADATA_KEY))
    result = CliRunner().invoke(cli, ["recover", "--data", f"{tmp_path}/data", "--yes"])
    assert result.exit_code == 0, result.output
    assert json.loads(change(storage, lambda store: store.properties())[PROPERTY]) == []
    _, _, loaded = started(storage)
    assert loaded.cluster_id == image.cluster_id
    assert set(loaded.topics_by_name) >= set(TOPICS[1:4])


def test_a_snapshot_that_cannot_be_written_is_logged_and_the_broker_serves(caplog, monkeypatch):
    async def fails(*_):
        raise StoreFullError("no space is left")

    monkeypatch.setattr(Snapshots, "write", fails)
    start, newest, image = fill("memory://", at_once)
    assert (start, newest) == (0, None)
    assert set(TOPICS[1:]) == set(image.topics_by_name)
    assert logged(caplog, logging.WARNING, "cannot write a snapshot of the metadata", "no space is left")


class SlowFirstWrite:
    """Blocking calls; the first write of properties takes longer than all others."""

    def __init__(self):
        self.writes = 0

    async def run_blocking(self, call):
        is_write = isinstance(call, partial) and getattr(call.func, "__name__", "") == "set_properties"
        self.writes += is_write
        await trio.sleep(10 if is_write and self.writes == 1 else 1)
        return call()


def test_the_list_has_a_snapshot_that_is_downloaded_while_another_is_written():
    store = MemoryStore(MemoryMedium())
    snapshots = Snapshots(store, SlowFirstWrite())
    own, downloaded = MetadataImage(offset=9, epoch=1), MetadataImage(offset=99, epoch=1)
    data = b"".join(snapshot_batches(downloaded, 0, ()))

    async def main():
        await snapshots.stage(SnapshotId(100, 1), 0, data, len(data))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(snapshots.write, own, 0)
            while not snapshots.known:  # noqa: ASYNC110 - nothing is notified of the list's change
                await trio.sleep(0.5)
            await snapshots.keep_staged(SnapshotId(100, 1))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert [*snapshots.known] == [SnapshotId(10, 1), SnapshotId(100, 1)]
    assert [each["endOffset"] for each in json.loads(store.properties()[PROPERTY])] == [10, 100]
